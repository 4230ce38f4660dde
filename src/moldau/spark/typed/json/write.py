"""Arrow columns to JSON text, column by column: each column becomes text, and texts are joined.

Pure. Times are ISO 8601 in UTC, bytes are base64, decimals are numbers, and what is not a number
in JSON (NaN, infinity) is null.
"""

import base64
import json

import pyarrow as pa
import pyarrow.compute as pc

from moldau.spark.typed.shapes import SchemaError

_TO_ESCAPE = r'["\\\x00-\x1f]'
_RARE = r"[\x00-\x08\x0b\x0c\x0e-\x1f]"
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_NULL = "null"


class JsonEncoder:
    """Values as JSON, each behind ``header``."""

    def __init__(self, column: pa.DataType, header: bytes) -> None:
        self._header = header
        json_text(pa.array([], column))

    def encode(self, column: pa.Array) -> pa.Array:
        text = json_text(column).cast(pa.binary())
        if self._header:
            parts = [pa.scalar(self._header, pa.binary()), text, pa.scalar(b"", pa.binary())]
            text = pc.binary_join_element_wise(*parts)
        return pc.if_else(column.is_valid(), text, pa.scalar(None, pa.binary()))


def json_text(column: pa.Array) -> pa.Array:
    """The JSON of each row; a null is the word null."""
    return _text(column).fill_null(_NULL)


def _text(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_struct(kind):
        return _object(column)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _joined(column, json_text(column.values), "[", "]")
    if pa.types.is_map(kind):
        if not pa.types.is_string(kind.key_type):
            raise SchemaError(f"{kind} cannot be JSON: the keys of an object are text, so cast them")
        pairs = _concatenated(_quoted(column.keys), ":", json_text(column.items))
        return _joined(column, pairs, "{", "}")
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _quoted(column.cast(pa.string()))
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return column.cast(pa.string())
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_finite(column), column.cast(pa.string()), pa.scalar(None, pa.string()))
    if pa.types.is_decimal(kind):
        return column.cast(pa.string())
    if pa.types.is_date32(kind):
        return _concatenated('"', column.cast(pa.string()), '"')
    if pa.types.is_timestamp(kind):
        plain = column.cast(pa.int64()).cast(pa.timestamp(kind.unit))
        return _concatenated('"', pc.strftime(plain, "%Y-%m-%dT%H:%M:%S"), '"' if kind.tz is None else 'Z"')
    if pa.types.is_binary(kind):
        texts = [None if v is None else f'"{base64.b64encode(v).decode()}"' for v in column.to_pylist()]
        return pa.array(texts, pa.string())
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string())
    raise SchemaError(f"{kind} cannot be JSON: cast the column to another type")


def _concatenated(*parts: pa.Array | str) -> pa.Array:
    scalars = [pa.scalar(part, pa.string()) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*scalars, pa.scalar("", pa.string()))


def _object(column: pa.Array) -> pa.Array:
    parts: list[pa.Array | str] = []
    for index, field in enumerate(column.type):
        parts += ["{" if not index else ",", json.dumps(field.name) + ":", json_text(column.field(index))]
    if not parts:
        texts = pa.repeat(pa.scalar("{}", pa.string()), len(column))
    else:
        texts = _concatenated(*parts, "}")
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string()))


def _joined(column: pa.Array, items: pa.Array, before: str, behind: str) -> pa.Array:
    offsets = column.offsets
    lists = pa.ListArray.from_arrays(offsets.cast(pa.int32()), items)
    texts = _concatenated(before, pc.binary_join(lists, ","), behind)
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string()))


def _quoted(column: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(column, _TO_ESCAPE)).as_py():
        if pc.any(pc.match_substring_regex(column, _RARE)).as_py():
            texts = [None if v is None else json.dumps(v, ensure_ascii=False) for v in column.to_pylist()]
            return pa.array(texts, pa.string())
        for found, instead in _ESCAPES:
            column = pc.replace_substring(column, found, instead)
    return _concatenated('"', column, '"')
