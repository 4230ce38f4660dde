"""Requests with JSON or binary records, read the quick way: all records at once, without an object for each.

Whatever is unusual (a mistake, escapes of characters, numbers that two writers of JSON write in two ways) is
left to the general way, which ``topics`` takes then: it finds the same records, and knows what to say.

Pure. Invariant: what is read here is to the byte what the general way reads; where that is not certain, the
answer is None.
"""

from binascii import a2b_base64
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import orjson

from moldau.rest.formats import Format

#: What an object of the list may have here; anything else is for the general way.
_FIELDS = frozenset({"key", "value", "partition"})
#: Brackets that one value may open, so that it is never nested more deeply than the general way allows.
_MOST_BRACKETS = 50
_MOST_ENTRIES = 10_000
_LARGEST_PARTITION = (1 << 31) - 1
#: Turns digits into 0 and both signs too, so that one search finds any number with an exponent.
_NUMBERS = bytes(ord("0") if each in b"0123456789+-" else each for each in range(256))


class PlainRecords(NamedTuple):
    """Records by column; None stands for a column in which there is nothing."""

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None
    partitions: Sequence[int | None] | None


def read_plain(form: Format, body: bytes) -> PlainRecords | None:
    """The records of a v2 request in one of the formats without a schema."""
    if b"\\" in body and b"\\u" in body:
        return None  # a quote may be written in two ways, so quotes could not be counted
    try:
        found = orjson.loads(body)
    except ValueError:
        return None
    if found.__class__ is not dict or len(found) != 1:
        return None
    entries = found.get("records")
    if entries.__class__ is not list or not 0 < len(entries) <= _MOST_ENTRIES:
        return None
    if set(map(type, entries)) != {dict}:
        return None
    names = frozenset().union(*entries)
    if not names <= _FIELDS:
        return None
    return _read_entries(form, body, entries, names)


def _read_entries(
    form: Format, body: bytes, entries: list[dict[str, Any]], names: frozenset[str]
) -> PlainRecords | None:
    columns = [[each.get(name) for each in entries] for name in ("value", "key") if name in names]
    write: Callable[[list[Any]], list[bytes | None] | None] = _texts if form is Format.JSON else _from_base64
    written = [write(column) for column in columns]
    if None in written:
        return None
    # A name that comes twice leaves fewer quotes in what was read than there are in the text.
    quotes = 2 + 2 * sum(map(len, entries))
    for column, each in zip(columns, written, strict=True):
        quotes += _quotes(form, column, each or ())
    if body.count(b'"') != quotes:
        return None
    partitions = [each.get("partition") for each in entries] if "partition" in names else None
    if partitions is not None and not all(map(_is_partition, partitions)):
        return None
    nothing: list[bytes | None] = [None] * len(entries)
    values = written[0] if "value" in names else nothing
    return PlainRecords(values or nothing, written[-1] if "key" in names else None, partitions)


def _texts(column: list[Any]) -> list[bytes | None] | None:
    """Each as JSON; None where another writer of JSON might write one of them differently."""
    dumps = orjson.dumps
    texts = [None if each is None else dumps(each) for each in column]
    everything = b"".join(filter(None, texts))
    # Very large and very small numbers: here 1e-05 is 0.00001, and integers of more than 64 bits are floats.
    if b".0000" in everything or b"0e0" in everything.translate(_NUMBERS):
        return None
    kinds = list(map(type, column))
    inner = everything.count(b"{") + everything.count(b"[") - kinds.count(dict) - kinds.count(list)
    if inner > _MOST_BRACKETS and max(map(_brackets, texts)) > _MOST_BRACKETS:
        return None
    return texts


def _brackets(text: bytes | None) -> int:
    return 0 if text is None else text.count(b"{") + text.count(b"[")


def _from_base64(column: list[Any]) -> list[bytes | None] | None:
    try:
        return [None if each is None else a2b_base64(each, strict_mode=True) for each in column]
    except (TypeError, ValueError):
        return None


def _quotes(form: Format, column: list[Any], written: Sequence[bytes | None]) -> int:
    """Quotes that a column has in the text of the request."""
    if form is Format.JSON:
        return b"".join(filter(None, written)).count(b'"')
    return 2 * (len(column) - column.count(None))


def _is_partition(given: Any) -> bool:
    return given is None or (given.__class__ is int and 0 <= given <= _LARGEST_PARTITION)
