"""Converts between Avro's JSON encoding and its binary encoding.

In JSON a value of a union names its branch, ``{"string": "x"}``, unless it is null; bytes are text with one
character for each byte. Logical types are shown as their underlying types, as in Java's tools.

Pure. A value that does not match the schema raises ``SerdeError`` with the path of the field.
"""

import math
from typing import Any, NoReturn

from moldau.schemas.avro.types import AvroSchema, AvroType
from moldau.serde.compiled_avro import numbers
from moldau.serde.errors import SerdeError, path_text, shown

_RANGES = {"int": 1 << 31, "long": 1 << 63}
_KEY = AvroType("string")
_CUT = "The data ends too early: it is cut off, or was written with another schema."


def encode(avro: AvroSchema, value: Any) -> bytes:
    """The binary form of a value in JSON."""
    if avro.is_bytes:
        return _bytes(value, [])
    made = bytearray()
    _write(avro.root, value, made, [])
    return bytes(made)


def _write(schema: AvroType, value: Any, made: bytearray, path: list[str | int]) -> None:
    form = schema.kind
    match form:
        case "union":
            _write_union(schema, value, made, path)
        case "record":
            _write_record(schema, _checked(value, dict, form, path), made, path)
        case "array" | "map":
            is_map = form == "map"
            items = _checked(value, dict if is_map else list, form, path)
            if items:
                made += numbers.varint(len(items))
            for key in items if is_map else range(len(items)):
                if is_map:
                    _write(_KEY, key, made, path)
                _write(schema.item, items[key], made, [*path, key])
            made.append(0)
        case _:
            made += _scalar(schema, form, value, path)


def _write_record(schema: AvroType, value: Any, made: bytearray, path: list[str | int]) -> None:
    names = [field.name for field in schema.fields]
    for name in names:
        if name not in value:
            raise SerdeError(f"{schema.name} has a field {name!r} that is not there.", path_text(path))
    for name in value:
        if name not in names:
            raise SerdeError(f"{schema.name} has no field {name!r}.", path_text(path))
    for field in schema.fields:
        _write(field.type, value[field.name], made, [*path, field.name])


def _write_union(union: AvroType, value: Any, made: bytearray, path: list[str | int]) -> None:
    names = [branch.called for branch in union.branches]
    if value is None:
        wanted, inner = "null", None
    elif isinstance(value, dict) and len(value) == 1:
        ((wanted, inner),) = value.items()
    else:
        wanted, inner = None, None
    found = [index for index, name in enumerate(names) if wanted in (name, name.rpartition(".")[2])]
    if not found:
        example = next((name for name in names if name != "null"), "string")
        raise SerdeError(
            f"{shown(value)} names no branch of the union ({', '.join(names)}): write null, or "
            f'{{"{example}": …}}.',
            path_text(path),
        )
    made += numbers.varint(found[0])
    _write(union.branches[found[0]], inner, made, path)


def _scalar(schema: AvroType, form: str, value: Any, path: list[str | int]) -> bytes:
    if form == "null":
        return b"" if value is None else _misfit(value, form, path)
    if form == "boolean":
        return bytes([_checked(value, bool, form, path)])
    if form in _RANGES:
        bound = _RANGES[form]
        if isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound:
            return numbers.varint(value)
        return _misfit(value, form, path)
    if form in ("float", "double"):
        if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return _misfit(value, form, path)
        return numbers.pack_float(value) if form == "float" else numbers.pack_double(value)
    if form == "string":
        data = _checked(value, str, form, path).encode("utf-8", "surrogatepass")
        return bytes(numbers.varint(len(data)) + data)
    if form == "enum":
        symbols = list(schema.symbols)
        return numbers.varint(symbols.index(value)) if value in symbols else _misfit(value, form, path)
    data = _bytes(value, path)
    if form == "fixed":
        return data if len(data) == schema.size else _misfit(value, f"fixed of {schema.size} bytes", path)
    return numbers.varint(len(data)) + data


def _bytes(value: Any, path: list[str | int]) -> bytes:
    try:
        return bytes(_checked(value, str, "bytes", path).encode("latin-1"))
    except UnicodeEncodeError:
        return _misfit(value, "bytes", path)


def _checked(value: Any, cls: type, form: str, path: list[str | int]) -> Any:
    return value if isinstance(value, cls) else _misfit(value, form, path)


def _misfit(value: Any, form: str, path: list[str | int]) -> NoReturn:
    raise SerdeError(f"{shown(value)} is no {form}.", path_text(path))


# From binary to JSON -----------------------------------------------------------------------------------


def decode(avro: AvroSchema, data: bytes, position: int) -> Any:
    """The JSON value of binary data, from a position to the end of the data."""
    if avro.is_bytes:
        return data[position:].decode("latin-1")
    try:
        value, end = _read(avro.root, data, position)
    except (IndexError, numbers.Misfit, RecursionError) as error:
        raise SerdeError(_CUT) from error
    if end != len(data):
        raise SerdeError(f"{len(data) - end} bytes are left: the data was written with another schema.")
    return value


def _read(schema: AvroType, data: bytes, at: int) -> tuple[Any, int]:
    form = schema.kind
    match form:
        case "union":
            index, at = numbers.read_varint(data, at)
            if not 0 <= index < len(schema.branches):
                raise SerdeError(_CUT)
            branch = schema.branches[index]
            value, at = _read(branch, data, at)
            return (None if branch.kind == "null" else {branch.called: value}), at
        case "record":
            found = {}
            for field in schema.fields:
                found[field.name], at = _read(field.type, data, at)
            return found, at
        case "array" | "map":
            return _read_items(schema, form == "map", data, at)
        case _:
            return _read_scalar(schema, form, data, at)


def _read_items(schema: AvroType, is_map: bool, data: bytes, at: int) -> tuple[Any, int]:
    items: list[Any] = []
    pairs: dict[str, Any] = {}
    empty = 0
    while True:
        count, at = numbers.read_count(data, at)
        if count == 0:
            return (pairs if is_map else items), at
        before = at
        for _ in range(count):
            if is_map:
                key, at = _read_scalar(_KEY, "string", data, at)
                pairs[key], at = _read(schema.item, data, at)
            else:
                value, at = _read(schema.item, data, at)
                items.append(value)
            empty += at == before
            if empty > numbers.MAX_EMPTY_ITEMS:
                raise SerdeError("The data claims more items than anyone could mean.")


def _read_scalar(schema: AvroType, form: str, data: bytes, at: int) -> tuple[Any, int]:
    if form == "null":
        return None, at
    if form == "boolean":
        return data[at] != 0, at + 1
    if form in _RANGES:
        return numbers.read_varint(data, at)
    if form in ("float", "double"):
        size = 4 if form == "float" else 8
        if at + size > len(data):
            raise IndexError
        (number,) = (numbers.unpack_float if form == "float" else numbers.unpack_double)(data, at)
        if math.isfinite(number):
            return number, at + size
        return ("NaN" if math.isnan(number) else f"{'-' if number < 0 else ''}Infinity"), at + size
    if form == "enum":
        index, at = numbers.read_varint(data, at)
        return list(schema.symbols)[index if index >= 0 else len(data)], at
    length, at = (schema.size, at) if form == "fixed" else numbers.read_length(data, at)
    if at + length > len(data):
        raise IndexError
    raw = data[at : at + length]
    return raw.decode("utf-8", "replace") if form == "string" else raw.decode("latin-1"), at + length
