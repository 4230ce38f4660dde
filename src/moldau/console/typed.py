"""What people type, from text to values: whole numbers and times. Pure.

Invariant: what comes out fits into the protocol's numbers, and a time is never one of those with a meaning of
their own, which are negative.
"""

from moldau.base.times import parse_time

_DIGITS = 18
_MAX_TEXT = 100
_END_OF_TIME_MS = 1 << 50


def digits(text: str) -> int | None:
    """A whole number that is not negative; None for anything else, and for one that no offset can be."""
    given = text.strip()
    return int(given) if given.isascii() and given.isdecimal() and len(given) <= _DIGITS else None


def time_ms(text: str, now_ms: int) -> int:
    """Milliseconds since 1970; ValueError with how to write it."""
    try:
        if len(text) > _MAX_TEXT:
            raise OverflowError
        return min(max(parse_time(text, now_ms), 0), _END_OF_TIME_MS)
    except OverflowError:
        raise ValueError(f"{text[:40]!r} is too far away") from None
