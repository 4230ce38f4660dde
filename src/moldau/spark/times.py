"""Times as users write them down.

Invariant: pure. A time without a zone is UTC.
"""

from datetime import UTC, datetime


def parse_time(given: datetime | str | int) -> int:
    """Milliseconds since 1970 of a time: a datetime (UTC where it has no zone), ISO 8601, or milliseconds."""
    if isinstance(given, int):
        return given
    if isinstance(given, str):
        text = given.strip()
        if text.lstrip("-").isdecimal():
            return int(text)
        try:
            given = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(
                f"{text!r} is no time: give milliseconds, or ISO 8601 such as 2026-01-31T12:00:00Z"
            ) from None
    aware = given if given.tzinfo is not None else given.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)
