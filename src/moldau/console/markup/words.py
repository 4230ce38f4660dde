"""Numbers, sizes and times as people read them. Pure."""

from datetime import UTC, datetime


def count(number: int | float) -> str:
    """1,234,567."""
    return f"{number:,.0f}"


def size(number: int) -> str:
    """1.5 MiB; a dash where it is not known."""
    if number < 0:
        return "–"
    value = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{number} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def rate(per_second: float | None, unit: str = "/s") -> str:
    """12 /s; a dash before two looks were taken."""
    if per_second is None:
        return "–"
    if per_second >= 10 or per_second == 0:
        return f"{per_second:,.0f} {unit}"
    return f"{per_second:.1f} {unit}"


def moment(timestamp_ms: int) -> str:
    """UTC with milliseconds; a dash for no time and for what is out of range."""
    if timestamp_ms < 0:
        return "–"
    try:
        found = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return "–"
    return found.strftime("%Y-%m-%d %H:%M:%S") + f".{timestamp_ms % 1000:03d}"


def duration(ms: int) -> str:
    """How long, in the unit that fits: 90 s, 7.0 d."""
    if ms < 0:
        return "for ever"
    value = float(ms)
    for unit, larger in (("ms", 1000.0), ("s", 120.0), ("min", 120.0), ("h", 72.0)):
        if value < larger:
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"
        value /= {"ms": 1000, "s": 60, "min": 60, "h": 24}[unit]
    return f"{value:.0f} d" if value == int(value) else f"{value:.1f} d"


def plural(number: int, word: str) -> str:
    return f"{count(number)} {word}{'' if number == 1 else 's'}"


def looked_at(scanned: int, matched: int) -> str:
    """How far a search is."""
    return f"{plural(scanned, 'record')} looked at, {count(matched)} {'fits' if matched == 1 else 'fit'}"
