"""Values as text: as Java's ``toString`` writes them, and as Connect writes them into headers.

Invariant: pure, and total for every value of the data model.
"""

import base64
import re
from collections.abc import Iterable
from decimal import Decimal

from moldau.connect.data.dates import DateFormat
from moldau.connect.data.numbers import float_text
from moldau.connect.data.schema import Struct
from moldau.connect.data.types import MILLIS_PER_DAY, Instant, java_class
from moldau.connect.errors import DataException

ISO_DATE = DateFormat("yyyy-MM-dd")
ISO_TIME = DateFormat("HH:mm:ss.SSS'Z'")
ISO_TIMESTAMP = DateFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
_HALF_PAIRS = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_JAVA_DATE = DateFormat("EEE MMM dd HH:mm:ss z y")


def java_text(value: object) -> str:
    """What ``String.valueOf`` gives in Java."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, Struct):
        inner = (f"{field.name}={java_text(item)}" for field, item in value.items() if item is not None)
        return f"Struct{{{','.join(inner)}}}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{java_text(key)}={java_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(java_text, value)) + "]"
    if isinstance(value, Instant):
        return _JAVA_DATE.format(value.epoch_ms)
    if isinstance(value, bytes | bytearray):
        return f"[B@{id(value) & 0xFFFFFFFF:x}"
    if isinstance(value, memoryview):
        size = value.nbytes
        return f"java.nio.HeapByteBuffer[pos=0 lim={size} cap={size}]"
    return str(value)


def decode_like_java(raw: bytes) -> str:
    """UTF-8 with a replacement for what is none; Java makes one of a whole half of a pair."""
    return _HALF_PAIRS.sub(b"\xef\xbf\xbd", bytes(raw)).decode("utf-8", "replace")


def base64_text(value: bytes | bytearray | memoryview) -> str:
    return base64.b64encode(value).decode("ascii")


def iso_format_for(value: Instant) -> DateFormat:
    """A time for what lies on or before the first day, a date for midnights, else both."""
    if value.epoch_ms < MILLIS_PER_DAY:
        return ISO_TIME
    return ISO_DATE if value.epoch_ms % MILLIS_PER_DAY == 0 else ISO_TIMESTAMP


def header_text(value: object, embedded: bool = False) -> str:
    """The text of a value in a header; texts inside of lists and maps are quoted."""
    if isinstance(value, str):
        return f'"{_escaped(value)}"' if embedded else value
    if value is None or isinstance(value, int | float | Decimal):
        return java_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        text = base64_text(value)
        return f'"{text}"' if embedded else text
    if isinstance(value, dict):
        return _braced((key, item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return "[" + ",".join(header_text(item, embedded=True) for item in value) + "]"
    if isinstance(value, Struct):
        return _braced((field.name, value.get(field.name)) for field, _ in value.items())
    if isinstance(value, Instant):
        return iso_format_for(value).format(value.epoch_ms)
    raise DataException(f"Failed to serialize unexpected value type {java_class(value)}: {java_text(value)}")


def _braced(entries: Iterable[tuple[object, object]]) -> str:
    inner = (f"{header_text(key, embedded=True)}:{header_text(item, embedded=True)}" for key, item in entries)
    return "{" + ",".join(inner) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
