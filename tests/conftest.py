"""What all tests share: those that take long begin first, so that short ones fill the gaps behind them."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, else as collected: a file stays together, as each goes to one worker."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
