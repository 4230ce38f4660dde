"""Messages of syslog as values: RFC 5424, the older RFC 3164, and what is neither.

Invariant: pure; every message gives a value, and ``rawMessage`` is all of it.
"""

import calendar
import re
from datetime import UTC, datetime

from moldau.connect.data.schema import Schema, Struct, map_of, struct, timestamp
from moldau.connect.data.types import Instant, Type

_TEXT = Schema(Type.STRING, optional=True)
_NUMBER = Schema(Type.INT32, optional=True)
_ELEMENT = map_of(Schema(Type.STRING), Schema(Type.STRING))
MESSAGE = struct(
    {
        "type": Schema(Type.STRING),
        "date": timestamp(optional=True),
        "facility": _NUMBER,
        "level": _NUMBER,
        "host": _TEXT,
        "appName": _TEXT,
        "processId": _TEXT,
        "messageId": _TEXT,
        "structuredData": map_of(Schema(Type.STRING), _ELEMENT, optional=True),
        "message": _TEXT,
        "remoteAddress": _TEXT,
        "rawMessage": Schema(Type.STRING),
    },
    name="io.moldau.connect.syslog.Message",
)

_PRIORITY = re.compile(r"<(\d{1,3})>")
_NEW = re.compile(r"<(\d{1,3})>1 (\S+) (\S+) (\S+) (\S+) (\S+) (.*)", re.DOTALL)
_OLD = re.compile(
    r"<\d{1,3}>(?P<when>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) (?P<host>\S+) "
    r"(?:(?P<tag>[^\s:\[]{1,48})(?:\[(?P<process>[^\]]*)\])?:? ?)?(?P<message>.*)",
    re.DOTALL,
)
_PARAMETER = re.compile(r' ([^\s=\]"]+)="((?:[^"\\]|\\.)*)"')
_MONTHS = {name: number for number, name in enumerate(calendar.month_abbr) if name}


def parsed(raw: str, sender: str, now_ms: int) -> Struct:
    """``now_ms`` tells the year of the older format, which does not name it."""
    found: dict[str, object] = {"type": "UNKNOWN", "message": raw, "rawMessage": raw, "remoteAddress": sender}
    priority = _PRIORITY.match(raw)
    if priority is not None and int(priority[1]) <= 191:
        found |= {"facility": int(priority[1]) >> 3, "level": int(priority[1]) & 7}
        found["message"] = raw[priority.end() :]
        found |= _newer(raw) or _older(raw, now_ms)
    return Struct(MESSAGE, found)


def _newer(raw: str) -> dict[str, object] | None:
    match = _NEW.fullmatch(raw)
    data = None if match is None else _data(match[7])
    if match is None or data is None:
        return None
    elements, text = data
    names = ("host", "appName", "processId", "messageId")
    found: dict[str, object] = {
        name: None if value == "-" else value for name, value in zip(names, match.groups()[2:6], strict=True)
    }
    return found | {
        "type": "RFC5424",
        "date": _instant(match[2]),
        "structuredData": elements or None,
        "message": text.removeprefix("\ufeff"),
    }


def _instant(text: str) -> Instant | None:
    try:
        return Instant.of(datetime.fromisoformat(text))
    except ValueError:
        return None


def _data(text: str) -> tuple[dict[str, dict[str, str]], str] | None:
    """Structured data, and the message behind it; None where it breaks off."""
    if text.startswith("-"):
        return {}, text[1:].removeprefix(" ")
    found: dict[str, dict[str, str]] = {}
    place = 0
    while text.startswith("[", place):
        name = re.compile(r'[^\s=\]"]+').match(text, place + 1)
        if name is None:
            return None
        element = found.setdefault(name[0], {})
        place = name.end()
        while (parameter := _PARAMETER.match(text, place)) is not None:
            element[parameter[1]] = re.sub(r'\\(["\\\]])', r"\1", parameter[2])
            place = parameter.end()
        if not text.startswith("]", place):
            return None
        place += 1
    return (found, text[place:].removeprefix(" ")) if found else None


def _older(raw: str, now_ms: int) -> dict[str, object]:
    match = _OLD.fullmatch(raw)
    if match is None or match["when"][:3] not in _MONTHS:
        return {}
    return {
        "type": "RFC3164",
        "date": _this_year(match["when"], now_ms),
        "host": match["host"],
        "appName": match["tag"],
        "processId": match["process"],
        "message": match["message"],
    }


def _this_year(text: str, now_ms: int) -> Instant | None:
    """In the year that brings it nearest to now: a message of New Year's Eve may come a day later."""
    now = Instant(now_ms).datetime()
    hour, minute, second = (int(part) for part in text[7:].split(":"))
    candidates = []
    for year in (now.year - 1, now.year, now.year + 1):
        try:
            candidates.append(
                datetime(year, _MONTHS[text[:3]], int(text[4:6]), hour, minute, second, tzinfo=UTC)
            )
        except ValueError:
            continue  # 29 February
    return Instant.of(min(candidates, key=lambda each: abs(each - now))) if candidates else None


def frames(buffer: bytes, limit: int) -> tuple[list[bytes], bytes]:
    """Whole messages of a stream and what is left of it (RFC 6587): counted ones, else lines. One that is
    longer than ``limit`` is cut there."""
    found: list[bytes] = []
    while buffer:
        counted = re.match(rb"([1-9]\d{0,9}) ", buffer)
        if counted is not None:
            size = int(counted[1])
            if size > limit or len(buffer) - counted.end() < size:
                if size <= limit:
                    break
                counted = None  # no count that is meant so: a line that begins with a number
            else:
                found.append(buffer[counted.end() : counted.end() + size])
                buffer = buffer[counted.end() + size :]
                continue
        line, newline, rest = buffer.partition(b"\n")
        if not newline and len(buffer) <= limit:
            break
        if len(line) > limit or not newline:
            line, rest = buffer[:limit], buffer[limit:]
        found.append(line)
        buffer = rest
    return [each for message in found if (each := message.strip(b"\r\n\0"))], buffer
