"""What people type: numbers and times, however large."""

import pytest

from moldau.console.typed import digits, time_ms


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *[("0", 0), (" 42 ", 42), ("9" * 18, 10**18 - 1), ("9" * 19, None), ("9" * 5000, None)],
        *[("-1", None), ("²", None), ("", None), ("x", None), ("1.5", None), ("٣", None)],
    ],
)
def test_digits(text: str, number: int | None) -> None:
    assert digits(text) == number


def test_times() -> None:
    assert time_ms("10s ago", 100_000) == 90_000
    assert time_ms("99999999w ago", 100_000) == 0  # not a negative one: those mean something else
    assert time_ms("9" * 90, 0) == 1 << 50
    for wrong in ("soon", "9" * 400 + "w ago", ""):
        with pytest.raises(ValueError, match=r"is not|too far"):
            time_ms(wrong, 0)
