"""Times and durations as Kafka's tools read them.

Pure. A text that cannot be parsed is a ``ToolError`` with Java's message.
"""

import re
from datetime import UTC, datetime, timedelta, timezone

from moldau.cli.kafka_tools.framework.exceptions import ToolError

_DATE_TIME = re.compile(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d+)(Z|[+-]\d\d(?::?\d\d)?)")
_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.IGNORECASE,
)
_PARSE = "java.text.ParseException"


def parse_date_time(text: str) -> int:
    """Milliseconds since 1970 of ``2026-01-01T00:03:00.000``; a zone may follow, otherwise it is UTC."""
    parts = text.split("T")
    if len(parts) < 2:
        message = "Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"
        raise ToolError("java.lang.RuntimeException", f"{_PARSE}: {message}")
    zoned = text if any(mark in parts[1] for mark in "+-Z") else f"{text}Z"
    match = _DATE_TIME.fullmatch(zoned)
    try:
        if match is None:
            raise ValueError
        numbers = [int(match[group]) for group in range(1, 7)]
        moment = datetime(*numbers, tzinfo=_zone(match[8]))  # type: ignore[misc, arg-type]
    except ValueError:
        raise ToolError("java.lang.RuntimeException", f'{_PARSE}: Unparseable date: "{zoned}"') from None
    return round(moment.timestamp() * 1000) + int(match[7])


def _zone(text: str) -> timezone:
    if text == "Z":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)


def parse_duration(text: str) -> int:
    """Milliseconds of ``P7D``, ``PT1H30M`` or ``-PT0.5S``."""
    match = _DURATION.fullmatch(text)
    if match is None or (match[3] or "").upper() == "T" or not any(match[g] for g in (2, 4, 5, 6)):
        raise ToolError("java.time.format.DateTimeParseException", "Text cannot be parsed to a Duration")
    days, hours, minutes, seconds = (int(match[group] or 0) for group in (2, 4, 5, 6))
    fraction = int((match[7] or "").ljust(3, "0")[:3])
    total = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000
    total += -fraction if (match[6] or "").startswith("-") else fraction
    return -total if match[1] == "-" else total
