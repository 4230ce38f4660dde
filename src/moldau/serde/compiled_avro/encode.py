"""Compiles an Avro schema into a Python function that encodes its values.

Invariant: one function for each record of the schema, with everything that the schema decides decided
beforehand. The bytes are those of fastavro and Java. A value that does not fit raises ``SerdeError`` with
the path of the field; no value is changed to make it fit.
"""

from collections.abc import Callable
from typing import Any

from moldau.schemas.avro.defaults import default_value
from moldau.schemas.avro.types import AvroSchema, AvroType
from moldau.serde.compiled_avro import numbers
from moldau.serde.compiled_avro.check import chosen_branch, problem
from moldau.serde.compiled_avro.numbers import SHORT, SHORT_LIMIT, Misfit
from moldau.serde.compiled_avro.source_text import Source
from moldau.serde.errors import SerdeError, path_text, shown


def _unknown_fields(record: str, names: frozenset[str], value: Any) -> None:
    extra = sorted(set(value) - names)
    raise SerdeError(
        f"{record} has no field {', '.join(map(repr, extra))}; it has {', '.join(sorted(names))}."
    )


_NAMES = {
    "S": SHORT,
    "unknown_fields": _unknown_fields,
    "Misfit": Misfit,
    "varint": numbers.varint,
    "varint_int": numbers.varint_int,
    "pack_double": numbers.pack_double,
    "pack_float": numbers.pack_float,
    "as_integer": numbers.as_integer,
    "as_float": numbers.as_float,
    "as_boolean": numbers.as_boolean,
    "as_text": numbers.as_text,
    "as_bytes": numbers.as_bytes,
    "as_list": numbers.as_list,
    "as_mapping": numbers.as_mapping,
}
#: Python allows some twenty blocks within each other; deeper parts get functions of their own.
_MAX_BLOCKS = 5
#: By Python type: the branches that its values can be meant for.
_OF_CLASS: dict[type, frozenset[str]] = {
    type(None): frozenset({"null"}),
    bool: frozenset({"boolean"}),
    int: frozenset({"int", "long", "float", "double"}),
    float: frozenset({"float", "double"}),
    str: frozenset({"string", "enum"}),
    bytes: frozenset({"bytes", "fixed"}),
    list: frozenset({"array"}),
    dict: frozenset({"record", "map"}),
}
Encode = Callable[[bytes, Any], bytes]


def compile_encoder(avro: AvroSchema, *, strict: bool = False) -> Encode:
    """``encode(prefix, value)``: the bytes of a value, behind those of a prefix."""
    return _encode_bytes if avro.is_bytes else compile_type(avro.root, strict=strict)


def compile_type(schema: AvroType, *, strict: bool = False) -> Encode:
    """The same for a type inside others: bytes have their length before them here."""
    try:
        write = _Compiler(schema, strict).compiled()
    except RecursionError as error:
        raise SerdeError("The Avro schema cannot be used: it is nested too deep.") from error
    known = (Misfit, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)

    def encode(prefix: bytes, value: Any) -> bytes:
        parts = [prefix]
        try:
            write(value, parts)
        except SerdeError:
            raise
        except (*known, numbers.StructError) as error:
            raise _misfit(schema, value, error) from error
        return b"".join(parts)

    return encode


def _encode_bytes(prefix: bytes, value: Any) -> bytes:
    """Bytes alone are written as they are."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise SerdeError(f"{shown(value)} is no bytes")
    return prefix + bytes(value)


def _misfit(schema: AvroType, value: Any, error: Exception) -> SerdeError:
    try:
        found = problem(schema, value)
    except RecursionError:
        return SerdeError("The value is nested too deep, or within itself.")
    if found is not None:
        return SerdeError(f"{found[1]}.", path_text(found[0]))
    return SerdeError(f"The value cannot be encoded: {type(error).__name__}: {error}")


class _Compiler:
    """``_pending`` are bytes that are known in a row: they go into the list of parts at once."""

    def __init__(self, root: AvroType, strict: bool) -> None:
        self._root = root
        self._strict = strict
        self._source = Source(_NAMES)
        self._records: dict[str, str] = {}
        self._pending: list[str] = []
        self._blocks = 0

    def compiled(self) -> Callable[[Any, list[bytes]], None]:
        name = self._function(self._root)
        return self._source.compiled(name, "Avro encoder")

    def _function(self, schema: AvroType) -> str:
        """A function of its own for a schema."""
        name = self._source.function_name()
        if schema.kind == "record":
            self._records[schema.name] = name
        pending, blocks = self._pending, self._blocks
        self._pending, self._blocks = [], 0
        with self._source.function(name, "x, parts"):
            if schema.kind == "record":
                self._fields(schema)
            else:
                self._value(schema, "x")
            self._flush()
            self._source.add("return")
        self._pending, self._blocks = pending, blocks
        return name

    def _out(self, *expressions: str) -> None:
        self._pending += expressions

    def _flush(self) -> None:
        if len(self._pending) == 1:
            self._source.add(f"parts.append({self._pending[0]})")
        elif self._pending:
            self._source.add(f"parts += ({', '.join(self._pending)})")
        self._pending = []

    def _fields(self, schema: AvroType) -> None:
        add = self._source.add
        if self._strict:
            names = self._source.constant(frozenset(field.name for field in schema.fields))
            record = self._source.constant(schema.name)
            add(f"if not x.keys() <= {names}: unknown_fields({record}, {names}, x)")
        if not schema.fields:
            add("as_mapping(x)")
        for field in schema.fields:
            name = self._source.variable()
            if not field.has_default:
                add(f"{name} = x[{field.name!r}]")
            else:
                default = default_value(field.type, field.default)
                given = "" if default is None else f", {self._source.constant(default)}"
                add(f"{name} = x.get({field.name!r}{given})")
            self._value(field.type, name)

    def _value(self, schema: AvroType, name: str) -> None:
        """The code that writes the variable ``name``, which it may change."""
        if schema.logical is not None:
            plain = self._source.constant(schema.logical.writer(schema.properties, schema.size))
            self._source.add(f"{name} = {plain}({name})")
        match schema.kind:
            case "record":
                function = self._records.get(schema.name) or self._function(schema)
                self._flush()
                self._source.add(f"{function}({name}, parts)")
            case "array":
                self._nested(schema, name, self._array)
            case "map":
                self._nested(schema, name, self._map)
            case "union":
                self._nested(schema, name, self._union)
            case other:
                getattr(self, f"_{other}")(schema, name)

    def _nested(self, schema: AvroType, name: str, emit: Callable[[AvroType, str], None]) -> None:
        if self._blocks >= _MAX_BLOCKS:
            function = self._function(schema)
            self._flush()
            self._source.add(f"{function}({name}, parts)")
            return
        self._blocks += 1
        emit(schema, name)
        self._blocks -= 1

    # Values without parts.

    def _null(self, schema: AvroType, name: str) -> None:
        self._source.add(f"if {name} is not None: raise Misfit")

    def _boolean(self, schema: AvroType, name: str) -> None:
        self._out(f"b'\\1' if {name} is True else b'\\0' if {name} is False else as_boolean({name})")

    def _int(self, schema: AvroType, name: str, slow: str = "varint_int") -> None:
        self._source.add(f"if {name}.__class__ is not int: {name} = as_integer({name})")
        self._out(f"S[{name} + {name}] if 0 <= {name} < {SHORT_LIMIT} else {slow}({name})")

    def _long(self, schema: AvroType, name: str) -> None:
        self._int(schema, name, "varint")

    def _float(self, schema: AvroType, name: str, pack: str = "pack_float") -> None:
        self._source.add(f"if {name}.__class__ is not float: {name} = as_float({name})")
        self._out(f"{pack}({name})")

    def _double(self, schema: AvroType, name: str) -> None:
        self._float(schema, name, "pack_double")

    def _string(self, schema: AvroType, name: str) -> None:
        self._source.add(f"if {name}.__class__ is not str: {name} = as_text({name})")
        self._source.add(f"{name} = {name}.encode()")
        self._sized(name)

    def _bytes(self, schema: AvroType, name: str) -> None:
        self._source.add(f"if {name}.__class__ is not bytes: {name} = as_bytes({name})")
        self._sized(name)

    def _sized(self, name: str) -> None:
        size = self._source.variable()
        self._source.add(f"{size} = len({name})")
        self._out(f"S[{size} + {size}] if {size} < {SHORT_LIMIT} else varint({size})", name)

    def _enum(self, schema: AvroType, name: str) -> None:
        symbols = {symbol: numbers.varint(index) for index, symbol in enumerate(schema.symbols)}
        self._out(f"{self._source.constant(symbols)}[{name}]")

    def _fixed(self, schema: AvroType, name: str) -> None:
        self._source.add(f"if {name}.__class__ is not bytes: {name} = as_bytes({name})")
        self._source.add(f"if len({name}) != {schema.size}: raise Misfit")
        self._out(name)

    # Values with parts.

    def _array(self, schema: AvroType, name: str) -> None:
        add, item = self._source.add, self._source.variable()
        add(f"if {name}.__class__ is not list: {name} = as_list({name})")
        self._flush()
        self._items(f"for {item} in {name}:", name, schema.item, item)
        self._out("b'\\0'")

    def _map(self, schema: AvroType, name: str) -> None:
        add, key, item = self._source.add, self._source.variable(), self._source.variable()
        add(f"if {name}.__class__ is not dict: {name} = as_mapping({name})")
        self._flush()
        self._items(f"for {key}, {item} in {name}.items():", name, schema.item, item, key)
        self._out("b'\\0'")

    def _items(self, loop: str, name: str, schema: AvroType, item: str, key: str | None = None) -> None:
        size = self._source.variable()
        self._source.add(f"{size} = len({name})")
        with self._source.block(f"if {size}:"):
            self._source.add(
                f"parts.append(S[{size} + {size}] if {size} < {SHORT_LIMIT} else varint({size}))"
            )
            with self._source.block(loop):
                if key is not None:
                    self._string(schema, key)
                self._value(schema, item)
                self._flush()

    def _union(self, schema: AvroType, name: str) -> None:
        kinds = [branch.kind for branch in schema.branches]
        self._flush()
        if len(kinds) == 2 and "null" in kinds and kinds != ["null", "null"]:
            self._optional(schema, name, kinds.index("null"))
            return
        add, index = self._source.add, self._source.variable()
        by_class = self._source.constant(self._by_class(schema, kinds))
        choose = self._source.constant(self._chooser(schema))
        add(f"{index} = {by_class}.get({name}.__class__)")
        add(f"if {index} is None: {index}, {name} = {choose}({name})")
        for number, branch in enumerate(schema.branches):
            with self._source.block(f"{'el' if number else ''}if {index} == {number}:"):
                self._branch(number, branch, name)

    def _optional(self, schema: AvroType, name: str, null: int) -> None:
        """A value or none, by far the most frequent union."""
        other = 1 - null
        with self._source.block(f"if {name} is None:"):
            self._source.add(f"parts.append(S[{2 * null}])")
        with self._source.block("else:"):
            if schema.branches[other].kind != "array":
                choose = self._source.constant(self._chooser(schema))
                self._source.add(f"if {name}.__class__ is tuple: {name} = {choose}({name})[1]")
            self._branch(other, schema.branches[other], name)

    def _branch(self, number: int, branch: AvroType, name: str) -> None:
        self._out(f"S[{2 * number}]")
        self._value(branch, name)
        self._flush()

    def _chooser(self, schema: AvroType) -> Callable[[Any], tuple[int, Any]]:
        return lambda value: chosen_branch(schema, value)

    def _by_class(self, schema: AvroType, kinds: list[str]) -> dict[type, int]:
        """The branch for a Python type, where only one can be meant.

        A logical type may take values of any type: then what fits is found out value by value.
        """
        if any(branch.logical is not None for branch in schema.branches):
            return {type(None): kinds.index("null")} if "null" in kinds else {}
        found = {}
        for python, accepted in _OF_CLASS.items():
            fitting = [index for index, each in enumerate(kinds) if each in accepted]
            if python is int and "int" not in kinds and "long" in kinds:
                fitting = [kinds.index("long")]
            if len(fitting) == 1:
                found[python] = fitting[0]
        return found
