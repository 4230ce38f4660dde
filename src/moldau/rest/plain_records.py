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
_MAYBE_EXPONENT = re.compile(rb"e[-+0-9](?<=[0-9]e.)", re.DOTALL)
_EXPONENT = re.compile(rb"(?:^|[:,\[])-?[0-9]+(?:\.[0-9]+)?e")
#: Values with brackets of their own.
_NESTED = frozenset({dict, list})

#: A body whose records have nothing but values, around and between them.
_FRONT, _BETWEEN, _BACK = b'{"records":[{"value":', b'},{"value":', b"}]}"
#: The same of a column that is written as objects with a name that hardly anybody uses.
_COLUMN_FRONT, _COLUMN_BETWEEN, _COLUMN_BACK = b'[{"":', b'},{"":', b"}]"
_value_of, _key_of = itemgetter("value"), itemgetter("key")


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
    usual = _values_and_keys(entries)
    if usual is None:
        return _read_entries(form, body, entries)
    values, keys = usual
    if form is Format.JSON and (keys is None or _are_plain_texts(keys, body)):
        if keys is not None:
            for each in entries:
                del each["key"]
        return _read_values(body, orjson.dumps(found), values, keys)
    columns = [values] if keys is None else [values, keys]
    names = ("value", "key")[: len(columns)]
    return _read_columns(form, body, entries, dict(zip(names, columns, strict=True)))


def _values_and_keys(entries: list[Any]) -> tuple[list[Any], list[Any] | None] | None:
    """Columns, where every entry is an object with a value and nothing else, or every one has a key too."""
    try:
        values, fields = list(map(_value_of, entries)), sum(map(len, entries))
        if fields == len(entries):
            return values, None
        return (values, list(map(_key_of, entries))) if fields == 2 * len(entries) else None
    except (KeyError, TypeError):
        return None


def _are_plain_texts(keys: list[Any], body: bytes) -> bool:
    """Whether all are texts that JSON writes as they are."""
    return b"\\" not in body and set(map(type, keys)) == {str}


def _read_values(
    body: bytes, rebuilt: bytes, values: list[Any], keys: list[str] | None
) -> PlainRecords | None:
    """The same as ``_read_entries`` for the usual request, whose keys, if there are any, are plain texts.

    ``rebuilt`` is its text, written again without the keys.
    """
    texts = _pieces(rebuilt[len(_FRONT) : -len(_BACK)], _BETWEEN, values)
    # A name that comes twice leaves fewer quotes in what was read than there are in the text.
    quotes_of_keys = 0 if keys is None else 4 * len(keys)
    if rebuilt != body and rebuilt.count(b'"') + quotes_of_keys != body.count(b'"'):
        return None
    if not _is_certain(rebuilt, values, texts, around=2 + len(values)):
        return None
    if b"null" in texts:
        texts = [None if each == b"null" else each for each in texts]
    if keys is None:
        return PlainRecords(texts, None, None)
    # No text of JSON has a line end in it.
    quoted = '"\n"'.join(keys)
    return PlainRecords(texts, f'"{quoted}"'.encode().split(b"\n"), None)


def _read_entries(form: Format, body: bytes, entries: list[Any]) -> PlainRecords | None:
    if set(map(type, entries)) != {dict}:
        return None
    names = frozenset().union(*entries)
    if not names <= _FIELDS:
        return None
    columns = {name: [each.get(name) for each in entries] for name in names}
    return _read_columns(form, body, entries, columns)


def _read_columns(
    form: Format, body: bytes, entries: list[dict[str, Any]], columns: dict[str, list[Any]]
) -> PlainRecords | None:
    """Records by the names of their fields; those that no entry has are not among them."""
    partitions = columns.pop("partition", None)
    write: Callable[[list[Any]], list[bytes | None] | None] = _texts if form is Format.JSON else _from_base64
    # A name that comes twice leaves fewer quotes in what was read than there are in the text.
    quotes = 2 + 2 * sum(map(len, entries))
    written: dict[str, list[bytes | None]] = {}
    for name, column in columns.items():
        found = write(column)
        if found is None:
            return None
        written[name] = found
        quotes += _quotes(form, column, found)
    if body.count(b'"') != quotes:
        return None
    if partitions is not None and not all(map(_is_partition, partitions)):
        return None
    nothing: list[bytes | None] = [None] * len(entries)
    return PlainRecords(written.get("value", nothing), written.get("key"), partitions)


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
    inner -= len(kinds) if _NESTED.issuperset(kinds) else sum(map(_NESTED.__contains__, kinds))
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
