"""Patterns of topics."""

import pytest

from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.cli.kafka_tools.framework.topic_filter import include_list, select, whole_match

NAMES = ["__consumer_offsets", "audit.log", "orders", "orders2"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("orders", ["orders"]),
        ("ord.*", ["orders", "orders2"]),
        ("orders, audit.log", ["audit.log", "orders"]),
        ("'orders'", ["orders"]),
        ("nope", []),
        (None, NAMES),
    ],
)
def test_select(pattern: str | None, expected: list[str]) -> None:
    assert select(NAMES, pattern) == expected


def test_internal_topics_can_be_left_out() -> None:
    assert select(NAMES, ".*", exclude_internal=True) == NAMES[1:]


def test_whole_names_match() -> None:
    assert not whole_match("ord")("orders")
    assert include_list("a|b")("b")


def test_a_bad_pattern() -> None:
    with pytest.raises(ToolError, match=r"\( is an invalid regex\."):
        include_list("(")
