"""Compiles the schema that data was written with, and the one it is read with, into a function that decodes.

Invariant: what the two schemas decide is decided beforehand: which fields are read, left out or filled with
their defaults, which numbers are promoted, which branch stands for which. Data that does not make sense
raises ``SerdeError``; no length that the data claims makes it hang, or take memory that the data does not
pay for.
"""

import copy
from collections.abc import Callable
from typing import Any

from fastavro.read import LOGICAL_READERS

from moldau.serde import avro_numbers
from moldau.serde.avro_numbers import MAX_EMPTY_ITEMS, Misfit
from moldau.serde.avro_resolution import (
    Unresolved,
    check,
    enum_symbols,
    matching_branch,
    matching_fields,
    promoted,
)
from moldau.serde.avro_schema import AvroSchema, branch_name, default_value, kind, logical
from moldau.serde.errors import SerdeError
from moldau.serde.source_text import Source


def _no_reading(said: str) -> None:
    raise SerdeError(said)


_NAMES = {
    "read_varint": avro_numbers.read_varint,
    "read_length": avro_numbers.read_length,
    "read_count": avro_numbers.read_count,
    "unpack_double": avro_numbers.unpack_double,
    "unpack_float": avro_numbers.unpack_float,
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
            return _alone(writer, reader or writer)
        read = _Compiler(writer, reader or writer, return_record_name).compiled()
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
        except (IndexError, avro_numbers.StructError) as error:
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


def _alone(writer: AvroSchema, reader: AvroSchema) -> Decode:
    """Bytes that are all there is: they have no length before them."""
    check(writer, reader, writer.root, reader.root)
    target: Any = reader.root
    if kind(target) == "union":
        target = matching_branch(writer, reader, writer.root, target)
    return _decode_text if kind(target) == "string" else _decode_bytes


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

    def __init__(self, writer: AvroSchema, reader: AvroSchema, return_record_name: bool) -> None:
        self._writer = writer
        self._reader = reader
        self._return_record_name = return_record_name
        self._source = Source(_NAMES)
        self._records: dict[tuple[str, str], str] = {}
        self._blocks = 0

    def compiled(self) -> Callable[[bytes, int], tuple[Any, int]]:
        check(self._writer, self._reader, self._writer.root, self._reader.root)
        name = self._function(self._writer.root, self._reader.root)
        return self._source.compiled(name, "Avro decoder")

    def _function(self, writer: Any, reader: Any) -> str:
        name = self._source.function_name()
        blocks, self._blocks = self._blocks, 0
        writer, reader = self._writer.resolved(writer), self._reader.resolved(reader)
        with self._source.function(name, "d, p"):
            if kind(writer) == kind(reader) == "record":
                self._records[writer["name"], reader["name"]] = name
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

    def _value(self, writer: Any, reader: Any) -> str:
        writer, reader = self._writer.resolved(writer), self._reader.resolved(reader)
        if kind(writer) == "union":
            return self._nested(writer, reader, self._union)
        if kind(reader) == "union":
            branch = matching_branch(self._writer, self._reader, writer, reader)
            return self._named(branch, self._value(writer, branch))
        step = promoted(writer, reader)
        match kind(writer):
            case "record":
                function = self._records.get((writer["name"], reader["name"]))
                return self._called(function or self._function(writer, reader))
            case "array":
                return self._nested(writer, reader, self._array)
            case "map":
                return self._nested(writer, reader, self._map)
            case "enum":
                found = self._enum(writer, reader)
            case other:
                found = step.format(getattr(self, f"_{other}")(writer))
        return self._converted(reader, found)

    def _converted(self, reader: Any, found: str) -> str:
        key = logical(reader)
        if key not in LOGICAL_READERS:
            return found
        convert, about = self._source.constant(LOGICAL_READERS[key]), self._source.constant(reader)
        return f"{convert}({found}, {about}, {about})"

    def _nested(self, writer: Any, reader: Any, emit: Callable[[Any, Any], str]) -> str:
        if self._blocks >= _MAX_BLOCKS:
            return self._called(self._function(writer, reader))
        self._blocks += 1
        found = emit(writer, reader)
        self._blocks -= 1
        return found

    def _fields(self, writer: Any, reader: Any) -> str:
        """Fields are read in the writer's order and answered in the reader's."""
        values: dict[str, str] = {}
        for written, wanted in matching_fields(writer, reader):
            if wanted is None:
                self._value_into(written["type"], written["type"], skipped=True)
            else:
                values[wanted["name"]] = self._value_into(written["type"], wanted["type"])
        parts = []
        for field in reader["fields"]:
            name = field["name"]
            parts.append(f"{name!r}: {values.get(name) or self._default(field)}")
        found = "{" + ", ".join(parts) + "}"
        if logical(reader) in LOGICAL_READERS:
            found = self._converted(reader, found)
        return found

    def _value_into(self, writer: Any, reader: Any, *, skipped: bool = False) -> str:
        """What was read, in a variable: the order of reading must not depend on where it is used."""
        kept = self._reader
        if skipped:
            self._reader = self._writer
            records, self._records = self._records, {}
        found = self._value(writer, reader)
        if skipped:
            self._reader, self._records = kept, records
        if found.isidentifier():
            return found
        name = self._source.variable()
        self._source.add(f"{name} = {found}")
        return name

    def _default(self, field: dict[str, Any]) -> str:
        value = default_value(self._reader, field["type"], field["default"])
        schema = self._reader.resolved(field["type"])
        if isinstance(value, list | dict):
            return f"copy({self._source.constant(value)})"
        return self._converted(schema, self._source.constant(value))

    # Values without parts.

    def _null(self, schema: Any) -> str:
        return "None"

    def _boolean(self, schema: Any) -> str:
        return self._read("BOOLEANS[d[p]]", 1)

    def _read(self, expression: str, size: int) -> str:
        found = self._source.variable()
        self._source.add(f"{found} = {expression}; p += {size}")
        return found

    def _int(self, schema: Any) -> str:
        found, add = self._source.variable(), self._source.add
        add(f"{found} = d[p]")
        add(f"if {found} < 128: {found} = {found} >> 1 ^ -({found} & 1); p += 1")
        add(f"else: {found}, p = read_varint(d, p)")
        return found

    _long = _int

    def _float(self, schema: Any) -> str:
        return self._read("unpack_float(d, p)[0]", 4)

    def _double(self, schema: Any) -> str:
        return self._read("unpack_double(d, p)[0]", 8)

    def _string(self, schema: Any) -> str:
        return self._sized(".decode()")

    def _bytes(self, schema: Any) -> str:
        return self._sized("")

    def _sized(self, step: str) -> str:
        """Lengths below 64 are one byte, and even: anything else takes the long way."""
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

    def _fixed(self, schema: Any) -> str:
        size = int(schema["size"])
        return self._read(f"d[p:p + {size}]", size)

    def _enum(self, writer: Any, reader: Any) -> str:
        symbols = enum_symbols(writer, reader)
        index, factor = self._index(len(symbols))
        by_index = {number * factor: symbol for number, symbol in enumerate(symbols)}
        found = self._source.variable()
        self._source.add(f"{found} = {self._source.constant(by_index)}[{index}]")
        if None in symbols:
            said = f"{reader['name']} has no symbol for one that {writer['name']} has, and no default."
            self._source.add(f"if {found} is None: no_reading({self._source.constant(said)})")
        return found

    # Values with parts.

    def _array(self, writer: Any, reader: Any) -> str:
        found = self._source.variable()
        self._source.add(f"{found} = []")
        with self._items(writer["items"]):
            self._source.add(f"{found}.append({self._value(writer['items'], reader['items'])})")
        return found

    def _map(self, writer: Any, reader: Any) -> str:
        found, key = self._source.variable(), self._source.variable()
        self._source.add(f"{found} = {{}}")
        with self._items("string"):
            self._source.add(f"{key} = {self._string('string')}")
            self._source.add(f"{found}[{key}] = {self._value(writer['values'], reader['values'])}")
        return found

    def _items(self, item: Any) -> "_Blocks":
        return _Blocks(self._source, may_be_empty=self._takes_no_bytes(item, frozenset()))

    def _takes_no_bytes(self, schema: Any, inside: frozenset[str]) -> bool:
        schema = self._writer.resolved(schema)
        match kind(schema):
            case "null":
                return True
            case "fixed":
                return bool(schema["size"] == 0)
            case "record":
                name = schema["name"]
                return name in inside or all(
                    self._takes_no_bytes(field["type"], inside | {name}) for field in schema["fields"]
                )
        return False

    def _union(self, writer: list[Any], reader: Any) -> str:
        """Which branch was written is known with the data; some may have no counterpart in the reader."""
        (index, factor), found = self._index(len(writer)), self._source.variable()
        for number, branch in enumerate(writer):
            with self._source.block(f"{'el' if number else ''}if {index} == {number * factor}:"):
                self._branch(branch, reader, found)
        with self._source.block("else:"):
            self._source.add("raise Misfit('a union has no such branch')")
        return found

    def _branch(self, branch: Any, reader: Any, found: str) -> None:
        branch = self._writer.resolved(branch)
        try:
            check(self._writer, self._reader, branch, reader)
        except Unresolved as error:
            said = f"The data holds a {branch_name(branch)} that the reader's schema cannot read: {error}."
            self._source.add(f"no_reading({self._source.constant(said)})")
            return
        target = reader
        if kind(reader) == "union":
            target = matching_branch(self._writer, self._reader, branch, reader)
        self._source.add(f"{found} = {self._named(target, self._value(branch, target))}")

    def _named(self, branch: Any, found: str) -> str:
        if self._return_record_name and kind(branch) == "record":
            return f"({branch['name']!r}, {found})"
        return found


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
