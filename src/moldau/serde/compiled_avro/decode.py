"""Compiles the schema that data was written with, and the one it is read with, into a function that decodes.

Invariant: what the two schemas decide is decided beforehand: which fields are read, left out or filled with
their defaults, which numbers are promoted, which branch stands for which. Data that does not make sense
raises ``SerdeError``; no length that the data claims makes it hang, or take more memory than the data has
bytes for.
"""

import copy
from collections.abc import Callable
from typing import Any

from moldau.schemas.avro.defaults import default_value
from moldau.schemas.avro.resolution import enum_symbols, matching_fields
from moldau.schemas.avro.types import AvroField, AvroSchema, AvroType
from moldau.serde.compiled_avro import numbers
from moldau.serde.compiled_avro.numbers import MAX_EMPTY_ITEMS, Misfit
from moldau.serde.compiled_avro.readable import Unresolved, branch_of, check, promotion
from moldau.serde.compiled_avro.source_text import Source
from moldau.serde.errors import SerdeError


def _no_reading(said: str) -> None:
    raise SerdeError(said)


_NAMES = {
    "read_varint": numbers.read_varint,
    "read_length": numbers.read_length,
    "read_count": numbers.read_count,
    "unpack_double": numbers.unpack_double,
    "unpack_float": numbers.unpack_float,
    "Misfit": Misfit,
    "copy": copy.deepcopy,
    "no_reading": _no_reading,
    "BOOLEANS": (False, True),
}
_MAX_BLOCKS = 3
_ENDS = "The data ends too early: it is cut off, or was written with another schema."
Decode = Callable[[bytes, int], Any]


def compile_decoder(
    writer: AvroSchema, reader: AvroSchema | None = None, *, return_record_name: bool = False
) -> Decode:
    """``decode(data, position)``: the value that begins there and ends with the data."""
    try:
        if writer.is_bytes:
            return _alone(writer.root, (reader or writer).root)
        read = _Compiler(return_record_name).compiled(writer.root, (reader or writer).root)
    except Unresolved as error:
        raise SerdeError(f"The reader's schema cannot read what the writer's writes: {error}.") from error
    except RecursionError as error:
        raise SerdeError("The Avro schema cannot be used: it is nested too deep.") from error
    known = (Misfit, TypeError, ValueError, ArithmeticError, AttributeError, KeyError)

    def decode(data: bytes, position: int) -> Any:
        try:
            value, end = read(data, position)
        except SerdeError:
            raise
        except (IndexError, numbers.StructError) as error:
            raise SerdeError(_ENDS) from error
        except known as error:
            said = str(error) or type(error).__name__
            raise SerdeError(f"The data was not written with its schema, or is damaged: {said}.") from error
        except RecursionError as error:
            raise SerdeError("The data is nested too deep.") from error
        if end != len(data):
            raise SerdeError(_ENDS if end > len(data) else _left_over(len(data) - end))
        return value

    return decode


def _alone(writer: AvroType, reader: AvroType) -> Decode:
    """Bytes that are all there is: they have no length before them."""
    check(writer, reader)
    return _decode_text if branch_of(writer, reader).kind == "string" else _decode_bytes


def _decode_bytes(data: bytes, position: int) -> Any:
    return data[position:]


def _decode_text(data: bytes, position: int) -> Any:
    try:
        return data[position:].decode()
    except UnicodeDecodeError as error:
        raise SerdeError(f"The data is no text in UTF-8: {error}.") from error


def _left_over(count: int) -> str:
    return f"{count} bytes are left over: the data is damaged, or was written with another schema."


class _Compiler:
    """Every ``_…`` that reads adds the code and returns the expression of what was read."""

    def __init__(self, return_record_name: bool) -> None:
        self._return_record_name = return_record_name
        self._source = Source(_NAMES)
        self._records: dict[tuple[AvroType, AvroType], str] = {}
        self._blocks = 0

    def compiled(self, writer: AvroType, reader: AvroType) -> Callable[[bytes, int], tuple[Any, int]]:
        check(writer, reader)
        return self._source.compiled(self._function(writer, reader), "Avro decoder")

    def _function(self, writer: AvroType, reader: AvroType) -> str:
        name = self._source.function_name()
        blocks, self._blocks = self._blocks, 0
        with self._source.function(name, "d, p"):
            if writer.kind == reader.kind == "record":
                self._records[writer, reader] = name
                found = self._fields(writer, reader)
            else:
                found = self._value(writer, reader)
            self._source.add(f"return {found}, p")
        self._blocks = blocks
        return name

    def _called(self, function: str) -> str:
        found = self._source.variable()
        self._source.add(f"{found}, p = {function}(d, p)")
        return found

    def _value(self, writer: AvroType, reader: AvroType) -> str:
        if writer.kind == "union":
            return self._nested(writer, reader, self._union)
        if reader.kind == "union":
            branch = branch_of(writer, reader)
            return self._named(branch, self._value(writer, branch))
        step = promotion(writer, reader)
        match writer.kind:
            case "record":
                return self._called(self._records.get((writer, reader)) or self._function(writer, reader))
            case "array":
                return self._nested(writer, reader, self._array)
            case "map":
                return self._nested(writer, reader, self._map)
            case "enum":
                return self._enum(writer, reader)
            case other:
                return self._converted(reader, step.format(getattr(self, f"_{other}")(writer)))

    def _converted(self, reader: AvroType, found: str) -> str:
        if reader.logical is None:
            return found
        convert = self._source.constant(reader.logical.reader(reader.properties, reader.size))
        return f"{convert}({found})"

    def _nested(self, writer: AvroType, reader: AvroType, emit: Callable[[AvroType, AvroType], str]) -> str:
        if self._blocks >= _MAX_BLOCKS:
            return self._called(self._function(writer, reader))
        self._blocks += 1
        found = emit(writer, reader)
        self._blocks -= 1
        return found

    def _fields(self, writer: AvroType, reader: AvroType) -> str:
        """Fields are read in the writer's order and answered in the reader's."""
        values: dict[int, str] = {}
        for written, place in matching_fields(writer, reader)[0]:
            if place is None:
                self._value_into(written.type, written.type)
            else:
                values[place] = self._value_into(written.type, reader.fields[place].type)
        parts = (
            f"{field.name!r}: {values.get(place) or self._default(field)}"
            for place, field in enumerate(reader.fields)
        )
        return "{" + ", ".join(parts) + "}"

    def _value_into(self, writer: AvroType, reader: AvroType) -> str:
        """What was read, in a variable: the order of reading must not depend on where it is used."""
        found = self._value(writer, reader)
        if found.isidentifier():
            return found
        name = self._source.variable()
        self._source.add(f"{name} = {found}")
        return name

    def _default(self, field: AvroField) -> str:
        value = default_value(field.type, field.default)
        if isinstance(value, list | dict):
            return f"copy({self._source.constant(value)})"
        return self._converted(field.type, self._source.constant(value))

    # Values without parts.

    def _null(self, schema: AvroType) -> str:
        return "None"

    def _boolean(self, schema: AvroType) -> str:
        return self._read("BOOLEANS[d[p]]", 1)

    def _read(self, expression: str, size: int) -> str:
        found = self._source.variable()
        self._source.add(f"{found} = {expression}; p += {size}")
        return found

    def _int(self, schema: AvroType) -> str:
        found, add = self._source.variable(), self._source.add
        add(f"{found} = d[p]")
        add(f"if {found} < 128: {found} = {found} >> 1 ^ -({found} & 1); p += 1")
        add(f"else: {found}, p = read_varint(d, p)")
        return found

    _long = _int

    def _float(self, schema: AvroType) -> str:
        return self._read("unpack_float(d, p)[0]", 4)

    def _double(self, schema: AvroType) -> str:
        return self._read("unpack_double(d, p)[0]", 8)

    def _string(self, schema: AvroType) -> str:
        return self._sized(".decode()")

    def _bytes(self, schema: AvroType) -> str:
        return self._sized("")

    def _sized(self, step: str) -> str:
        """Lengths below 64 are one byte, and even: anything else calls ``read_length``."""
        found, end, add = self._source.variable(), self._source.variable(), self._source.add
        add(f"{end} = d[p]")
        add(f"if {end} & 129: {end}, p = read_length(d, p); {end} += p")
        add(f"else: p += 1; {end} = p + ({end} >> 1)")
        add(f"{found} = d[p:{end}]{step}; p = {end}")
        return found

    def _index(self, count: int) -> tuple[str, int]:
        """A variable for the index of a branch or a symbol, and what it is multiplied with."""
        found = self._source.variable()
        if count <= 64:
            self._source.add(f"{found} = d[p]; p += 1")
            return found, 2
        self._source.add(f"{found}, p = read_varint(d, p)")
        return found, 1

    def _fixed(self, schema: AvroType) -> str:
        return self._read(f"d[p:p + {schema.size}]", schema.size)

    def _enum(self, writer: AvroType, reader: AvroType) -> str:
        symbols = enum_symbols(writer, reader)
        index, factor = self._index(len(symbols))
        by_index = {number * factor: symbol for number, symbol in enumerate(symbols)}
        found = self._source.variable()
        self._source.add(f"{found} = {self._source.constant(by_index)}[{index}]")
        if None in symbols:
            said = f"{reader.name} has no symbol for one that {writer.name} has, and no default."
            self._source.add(f"if {found} is None: no_reading({self._source.constant(said)})")
        return found

    # Values with parts.

    def _array(self, writer: AvroType, reader: AvroType) -> str:
        found = self._source.variable()
        self._source.add(f"{found} = []")
        with _Blocks(self._source, may_be_empty=_takes_no_bytes(writer.item, frozenset())):
            self._source.add(f"{found}.append({self._value(writer.item, reader.item)})")
        return found

    def _map(self, writer: AvroType, reader: AvroType) -> str:
        found, key = self._source.variable(), self._source.variable()
        self._source.add(f"{found} = {{}}")
        with _Blocks(self._source, may_be_empty=False):
            self._source.add(f"{key} = {self._string(writer)}")
            self._source.add(f"{found}[{key}] = {self._value(writer.item, reader.item)}")
        return found

    def _union(self, writer: AvroType, reader: AvroType) -> str:
        """Which branch was written is known with the data; some may have no counterpart in the reader."""
        (index, factor), found = self._index(len(writer.branches)), self._source.variable()
        for number, branch in enumerate(writer.branches):
            with self._source.block(f"{'el' if number else ''}if {index} == {number * factor}:"):
                self._branch(branch, reader, found)
        with self._source.block("else:"):
            self._source.add("raise Misfit('a union has no such branch')")
        return found

    def _branch(self, branch: AvroType, reader: AvroType, found: str) -> None:
        try:
            check(branch, reader)
        except Unresolved as error:
            said = f"The data holds a {branch.called} that the reader's schema cannot read: {error}."
            self._source.add(f"no_reading({self._source.constant(said)})")
            return
        target = branch_of(branch, reader)
        self._source.add(f"{found} = {self._named(target, self._value(branch, target))}")

    def _named(self, branch: AvroType, found: str) -> str:
        if self._return_record_name and branch.kind == "record":
            return f"({branch.name!r}, {found})"
        return found


def _takes_no_bytes(schema: AvroType, inside: frozenset[str]) -> bool:
    match schema.kind:
        case "null":
            return True
        case "fixed":
            return schema.size == 0
        case "record":
            return schema.name in inside or all(
                _takes_no_bytes(field.type, inside | {schema.name}) for field in schema.fields
            )
    return False


class _Blocks:
    """The loops around the items of an array or a map: blocks until an empty one, items of each."""

    def __init__(self, source: Source, *, may_be_empty: bool) -> None:
        self._source = source
        self._may_be_empty = may_be_empty

    def __enter__(self) -> None:
        source, count = self._source, self._source.variable()
        self._outer = source.block("while True:")
        self._outer.__enter__()
        source.add(f"{count} = d[p]")
        source.add(f"if {count} & 129: {count}, p = read_count(d, p)")
        source.add(f"else: {count} >>= 1; p += 1")
        source.add(f"if not {count}: break")
        if self._may_be_empty:
            source.add(f"if {count} > {MAX_EMPTY_ITEMS}: raise Misfit('a block has too many empty items')")
        self._inner = source.block(f"for _ in range({count}):")
        self._inner.__enter__()

    def __exit__(self, *_: object) -> None:
        self._inner.__exit__(None, None, None)
        self._outer.__exit__(None, None, None)
