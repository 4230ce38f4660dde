"""Compiles an Avro schema into a Python function that encodes its values.

Invariant: one function for each record of the schema, with everything that the schema decides decided
beforehand. The bytes are those of fastavro and Java. A value that does not fit raises ``SerdeError`` with
the path of the field; nothing is written with a value bent into shape.
"""

from collections.abc import Callable
from typing import Any

from fastavro.write import LOGICAL_WRITERS

from moldau.serde import avro_numbers
from moldau.serde.avro_check import chosen_branch, problem
from moldau.serde.avro_numbers import SHORT, SHORT_LIMIT, Misfit
from moldau.serde.avro_schema import AvroSchema, default_value, kind, logical
from moldau.serde.errors import SerdeError, path_text, shown
from moldau.serde.source_text import Source


def _unknown_fields(record: str, names: frozenset[str], value: Any) -> None:
    extra = sorted(set(value) - names)
    raise SerdeError(
        f"{record} has no field {', '.join(map(repr, extra))}; it has {', '.join(sorted(names))}."
    )


_NAMES = {
    "S": SHORT,
    "unknown_fields": _unknown_fields,
    "Misfit": Misfit,
    "varint": avro_numbers.varint,
    "varint_int": avro_numbers.varint_int,
    "pack_double": avro_numbers.pack_double,
    "pack_float": avro_numbers.pack_float,
    "as_integer": avro_numbers.as_integer,
    "as_float": avro_numbers.as_float,
    "as_boolean": avro_numbers.as_boolean,
    "as_text": avro_numbers.as_text,
    "as_bytes": avro_numbers.as_bytes,
    "as_list": avro_numbers.as_list,
    "as_mapping": avro_numbers.as_mapping,
}
#: Python allows some twenty blocks within each other; deeper parts get functions of their own.
_MAX_BLOCKS = 5
#: The Python types whose values can only be meant for branches of these types.
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
    if avro.is_bytes:
        return _encode_bytes
    try:
        write = _Compiler(avro, strict).compiled()
    except RecursionError as error:
        raise SerdeError("The Avro schema cannot be used: it is nested too deep.") from error
    known = (Misfit, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)

    def encode(prefix: bytes, value: Any) -> bytes:
        parts = [prefix]
        try:
            write(value, parts)
        except SerdeError:
            raise
        except (*known, avro_numbers.StructError) as error:
            raise _misfit(avro, value, error) from error
        return b"".join(parts)

    return encode


def _encode_bytes(prefix: bytes, value: Any) -> bytes:
    """Bytes alone are written as they are."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise SerdeError(f"{shown(value)} is no bytes")
    return prefix + bytes(value)


def _misfit(avro: AvroSchema, value: Any, error: Exception) -> SerdeError:
    try:
        found = problem(avro, avro.root, value)
    except RecursionError:
        return SerdeError("The value is nested too deep, or within itself.")
    if found is not None:
        return SerdeError(f"{found[1]}.", path_text(found[0]))
    return SerdeError(f"The value cannot be encoded: {type(error).__name__}: {error}")


class _Compiler:
    """``_pending`` are bytes that are known in a row: they go into the list of parts at once."""

    def __init__(self, avro: AvroSchema, strict: bool) -> None:
        self._avro = avro
        self._strict = strict
        self._source = Source(_NAMES)
        self._records: dict[str, str] = {}
        self._pending: list[str] = []
        self._blocks = 0

    def compiled(self) -> Callable[[Any, list[bytes]], None]:
        name = self._function(self._avro.root)
        return self._source.compiled(name, "Avro encoder")

    def _function(self, schema: Any) -> str:
        """A function of its own for a schema."""
        name = self._source.function_name()
        if kind(schema) == "record":
            self._records[schema["name"]] = name
        pending, blocks = self._pending, self._blocks
        self._pending, self._blocks = [], 0
        with self._source.function(name, "x, parts"):
            if kind(schema) == "record":
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

    def _fields(self, schema: dict[str, Any]) -> None:
        add = self._source.add
        if self._strict:
            names = self._source.constant(frozenset(field["name"] for field in schema["fields"]))
            record = self._source.constant(schema["name"])
            add(f"if not x.keys() <= {names}: unknown_fields({record}, {names}, x)")
        if not schema["fields"]:
            add("as_mapping(x)")
        for field in schema["fields"]:
            name = self._source.variable()
            if "default" not in field:
                add(f"{name} = x[{field['name']!r}]")
            else:
                default = default_value(self._avro, field["type"], field["default"])
                given = "" if default is None else f", {self._source.constant(default)}"
                add(f"{name} = x.get({field['name']!r}{given})")
            self._value(field["type"], name)

    def _value(self, schema: Any, name: str) -> None:
        """The code that writes the variable ``name``, which it may change."""
        schema = self._avro.resolved(schema)
        key = logical(schema)
        if key in LOGICAL_WRITERS:
            prepare, about = self._source.constant(LOGICAL_WRITERS[key]), self._source.constant(schema)
            self._source.add(f"{name} = {prepare}({name}, {about})")
        match kind(schema):
            case "record":
                function = self._records.get(schema["name"]) or self._function(schema)
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

    def _nested(self, schema: Any, name: str, emit: Callable[[Any, str], None]) -> None:
        if self._blocks >= _MAX_BLOCKS:
            function = self._function(schema)
            self._flush()
            self._source.add(f"{function}({name}, parts)")
            return
        self._blocks += 1
        emit(schema, name)
        self._blocks -= 1

    # Values without parts.

    def _null(self, schema: Any, name: str) -> None:
        self._source.add(f"if {name} is not None: raise Misfit")

    def _boolean(self, schema: Any, name: str) -> None:
        self._out(f"b'\\1' if {name} is True else b'\\0' if {name} is False else as_boolean({name})")

    def _int(self, schema: Any, name: str, slow: str = "varint_int") -> None:
        self._source.add(f"if {name}.__class__ is not int: {name} = as_integer({name})")
        self._out(f"S[{name} + {name}] if 0 <= {name} < {SHORT_LIMIT} else {slow}({name})")

    def _long(self, schema: Any, name: str) -> None:
        self._int(schema, name, "varint")

    def _float(self, schema: Any, name: str, pack: str = "pack_float") -> None:
        self._source.add(f"if {name}.__class__ is not float: {name} = as_float({name})")
        self._out(f"{pack}({name})")

    def _double(self, schema: Any, name: str) -> None:
        self._float(schema, name, "pack_double")

    def _string(self, schema: Any, name: str) -> None:
        self._source.add(f"if {name}.__class__ is not str: {name} = as_text({name})")
        self._source.add(f"{name} = {name}.encode()")
        self._sized(name)

    def _bytes(self, schema: Any, name: str) -> None:
        self._source.add(f"if {name}.__class__ is not bytes: {name} = as_bytes({name})")
        self._sized(name)

    def _sized(self, name: str) -> None:
        size = self._source.variable()
        self._source.add(f"{size} = len({name})")
        self._out(f"S[{size} + {size}] if {size} < {SHORT_LIMIT} else varint({size})", name)

    def _enum(self, schema: Any, name: str) -> None:
        symbols = {symbol: avro_numbers.varint(index) for index, symbol in enumerate(schema["symbols"])}
        self._out(f"{self._source.constant(symbols)}[{name}]")

    def _fixed(self, schema: Any, name: str) -> None:
        self._source.add(f"if {name}.__class__ is not bytes: {name} = as_bytes({name})")
        self._source.add(f"if len({name}) != {int(schema['size'])}: raise Misfit")
        self._out(name)

    # Values with parts.

    def _array(self, schema: Any, name: str) -> None:
        add, item = self._source.add, self._source.variable()
        add(f"if {name}.__class__ is not list: {name} = as_list({name})")
        self._flush()
        self._items(f"for {item} in {name}:", name, schema["items"], item)
        self._out("b'\\0'")

    def _map(self, schema: Any, name: str) -> None:
        add, key, item = self._source.add, self._source.variable(), self._source.variable()
        add(f"if {name}.__class__ is not dict: {name} = as_mapping({name})")
        self._flush()
        self._items(f"for {key}, {item} in {name}.items():", name, schema["values"], item, key)
        self._out("b'\\0'")

    def _items(self, loop: str, name: str, schema: Any, item: str, key: str | None = None) -> None:
        size = self._source.variable()
        self._source.add(f"{size} = len({name})")
        with self._source.block(f"if {size}:"):
            self._source.add(
                f"parts.append(S[{size} + {size}] if {size} < {SHORT_LIMIT} else varint({size}))"
            )
            with self._source.block(loop):
                if key is not None:
                    self._string("string", key)
                self._value(schema, item)
                self._flush()

    def _union(self, schema: list[Any], name: str) -> None:
        kinds = [kind(self._avro.resolved(branch)) for branch in schema]
        self._flush()
        if len(schema) == 2 and "null" in kinds and kinds != ["null", "null"]:
            self._optional(schema, name, kinds.index("null"))
            return
        add, index = self._source.add, self._source.variable()
        by_class = self._source.constant(self._by_class(schema, kinds))
        choose = self._source.constant(self._chooser(schema))
        add(f"{index} = {by_class}.get({name}.__class__)")
        add(f"if {index} is None: {index}, {name} = {choose}({name})")
        for number, branch in enumerate(schema):
            with self._source.block(f"{'el' if number else ''}if {index} == {number}:"):
                self._branch(number, branch, name)

    def _optional(self, schema: list[Any], name: str, null: int) -> None:
        """A value or none, by far the most frequent union."""
        other = 1 - null
        with self._source.block(f"if {name} is None:"):
            self._source.add(f"parts.append(S[{2 * null}])")
        with self._source.block("else:"):
            if kind(self._avro.resolved(schema[other])) != "array":
                choose = self._source.constant(self._chooser(schema))
                self._source.add(f"if {name}.__class__ is tuple: {name} = {choose}({name})[1]")
            self._branch(other, schema[other], name)

    def _branch(self, number: int, branch: Any, name: str) -> None:
        self._out(f"S[{2 * number}]")
        self._value(branch, name)
        self._flush()

    def _chooser(self, schema: list[Any]) -> Callable[[Any], tuple[int, Any]]:
        return lambda value: chosen_branch(self._avro, schema, value)

    def _by_class(self, schema: list[Any], kinds: list[str]) -> dict[type, int]:
        """The branch for a Python type, where only one can be meant.

        A logical type may take values of any type: then what fits is found out value by value.
        """
        if any(logical(self._avro.resolved(branch)) in LOGICAL_WRITERS for branch in schema):
            return {type(None): kinds.index("null")} if "null" in kinds else {}
        found = {}
        for python, accepted in _OF_CLASS.items():
            fitting = [index for index, each in enumerate(kinds) if each in accepted]
            if python is int and "int" not in kinds and "long" in kinds:
                fitting = [kinds.index("long")]
            if len(fitting) == 1:
                found[python] = fitting[0]
        return found
