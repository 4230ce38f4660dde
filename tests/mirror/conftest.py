"""What a mirror looks at now and then it looks at often in tests."""

import pytest

from moldau.mirror import exact_copy, translated_copy


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (exact_copy, translated_copy):
        monkeypatch.setattr(module, "_BOUNDS_SECONDS", 0.1)
