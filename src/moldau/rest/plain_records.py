"""Requests with JSON or binary records, read the quick way: all records at once, without an object for each.

Whatever is unusual (a mistake, escapes of characters, numbers that two writers of JSON write in two ways) is
left to the general way, which ``topics`` takes then: it finds the same records, and knows what to say.

Pure. Invariant: what is read here is to the byte what the general way reads; where that is not certain, the
answer is None.
"""

import re
from binascii import a2b_base64
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from moldau.rest.formats import Format

#: What an object of the list may have here; anything else is for the general way.
_FIELDS = frozenset({"key", "value", "partition"})
#: Brackets that one value may open, so that it is never nested more deeply than the general way allows.
_MOST_BRACKETS = 50
_MOST_ENTRIES = 10_000
_LARGEST_PARTITION = (1 << 31) - 1
#: Where a number with an exponent may be, found in little time; and where one is, or a text that looks so.
_MAYBE_EXPONENT = re.compile(rb"e(?<=[0-9]e)[-+0-9]")
_EXPONENT = re.compile(rb"(?:^|[:,\[])-?[0-9]+(?:\.[0-9]+)?e")


#: A body whose records have nothing but values, around and between them.
_FRONT, _BETWEEN, _BACK = b'{"records":[{"value":', b'},{"value":', b"}]}"
#: The same of a column that is written as objects with a name that hardly anybody uses.
_COLUMN_FRONT, _COLUMN_BETWEEN, _COLUMN_BACK = b'[{"":', b'},{"":', b"}]"
_value_of = itemgetter("value")


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
    try:
        return _read(form, body, found)
    except orjson.JSONEncodeError:
        return None  # nested so deeply that it cannot be written


def _read(form: Format, body: bytes, found: Any) -> PlainRecords | None:
    if found.__class__ is not dict or len(found) != 1:
        return None
    entries = found.get("records")
    if entries.__class__ is not list or not 0 < len(entries) <= _MOST_ENTRIES:
        return None
    if form is Format.JSON and (values := _only_values(entries)) is not None:
        return _read_values(body, orjson.dumps(found), values)
    if set(map(type, entries)) != {dict}:
        return None
    names = frozenset().union(*entries)
    if not names <= _FIELDS:
        return None
    return _read_entries(form, body, entries, names)


def _only_values(entries: list[Any]) -> list[Any] | None:
    """Their values, where every entry is an object that has a value and nothing else."""
    try:
        values = list(map(_value_of, entries))
    except (KeyError, TypeError):
        return None
    return values if sum(map(len, entries)) == len(entries) else None


def _read_values(body: bytes, rebuilt: bytes, values: list[Any]) -> PlainRecords | None:
    """The same as ``_read_entries`` for the usual request; ``rebuilt`` is its text, written again."""
    texts = _pieces(rebuilt[len(_FRONT) : -len(_BACK)], _BETWEEN, values)
    # A name that comes twice leaves fewer quotes in what was read than there are in the text.
    if rebuilt != body and rebuilt.count(b'"') != body.count(b'"'):
        return None
    if not _is_certain(rebuilt, values, texts, around=2 + len(values)):
        return None
    if b"null" in texts:
        texts = [None if each == b"null" else each for each in texts]
    return PlainRecords(texts, None, None)


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
    written = orjson.dumps([{"": each} for each in column])
    texts = _pieces(written[len(_COLUMN_FRONT) : -len(_COLUMN_BACK)], _COLUMN_BETWEEN, column)
    if not _is_certain(written, column, texts, around=1 + len(column)):
        return None
    return [None if each == b"null" else each for each in texts] if b"null" in texts else texts


def _pieces(written: bytes, between: bytes, column: list[Any]) -> list[bytes | None]:
    """The values of a column that were written in one text, which takes a tenth of the time of one by one.

    In a text of JSON there is no quote without a backslash, so what stands between them can be mistaken only
    inside of nested values; then there are more pieces than values.
    """
    texts: list[bytes | None] = [*written.split(between)]
    return texts if len(texts) == len(column) else list(map(orjson.dumps, column))


def _is_certain(everything: bytes, column: list[Any], texts: Sequence[bytes | None], *, around: int) -> bool:
    """Whether every writer of JSON writes the same, and nothing is nested too deeply.

    ``everything`` is all texts of a column and what stands between them, with so many brackets around them.
    """
    # Very large and very small numbers: here 1e-05 is 0.00001, and integers of more than 64 bits are floats.
    if b"." in everything and b".0000" in everything:
        return False
    if _MAYBE_EXPONENT.search(everything) and _EXPONENT.search(everything):
        return False
    inner = everything.count(b"{") + (b"[" in everything and everything.count(b"[")) - around
    if inner <= _MOST_BRACKETS:
        return True
    kinds = list(map(type, column))
    inner -= kinds.count(dict) + kinds.count(list)
    return inner <= _MOST_BRACKETS or max(map(_brackets, texts)) <= _MOST_BRACKETS


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
