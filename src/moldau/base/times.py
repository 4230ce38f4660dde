"""Parses times as people write them, and formats them. Pure: the present time is an argument."""

import re
from datetime import UTC, datetime

_AGO = re.compile(r"-?\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)(?:\s+ago)?")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}

HOW_TO_WRITE = "a time such as 2026-01-31T12:00:00Z, '10m ago', -2h, or milliseconds since 1970"


def parse_time(text: str, now_ms: int) -> int:
    """Milliseconds since 1970; a time without a zone is local. ValueError when it cannot be parsed."""
    given = text.strip()
    if given.isdecimal():
        return int(given)
    if given == "now":
        return now_ms
    ago = _AGO.fullmatch(given)
    if ago is not None and (given.startswith("-") or given.endswith("ago")):
        return now_ms - round(float(ago[1]) * _UNIT_MS[ago[2]])
    try:
        return round(datetime.fromisoformat(given).timestamp() * 1000)
    except ValueError:
        raise ValueError(f"{text!r} is not {HOW_TO_WRITE}") from None


def format_time(timestamp_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds; "-" for -1 (no time) and for what is out of range."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return "-"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
