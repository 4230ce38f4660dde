"""Schemas of Connect and the values that they describe: structs, maps, arrays and single values.

A schema has a type, may be optional, and may have a default, a name, a version, a documentation and
parameters. ``fit`` is the one place that says whether a value belongs to a schema.

Invariant: a schema never changes once it is made, its default fits it, and a ``Struct`` holds only values
that fit its fields.
"""

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple

from moldau.connect.data.types import (
    EXACT,
    INTEGERS,
    Float32,
    Float64,
    Instant,
    Type,
    java_class,
    nearest_float32,
)
from moldau.connect.errors import DataException, SchemaBuilderException

DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"

_KEEP: Any = object()


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    index: int
    schema: "Schema"


class Schema:
    """What a value must be. Equal schemas are one key of a dict."""

    __slots__ = (
        "_by_name",
        "_fields",
        "_hash",
        "_keys",
        "_values",
        "default",
        "doc",
        "name",
        "optional",
        "parameters",
        "type",
        "version",
    )

    def __init__(
        self,
        type: Type,
        *,
        optional: bool = False,
        default: object = None,
        name: str | None = None,
        version: int | None = None,
        doc: str | None = None,
        parameters: Mapping[str, str] | None = None,
        fields: "Iterable[tuple[str, Schema]]" = (),
        keys: "Schema | None" = None,
        values: "Schema | None" = None,
    ) -> None:
        self.type = type
        self.optional = optional
        self.name = name
        self.version = version
        self.doc = doc
        self.parameters = dict(parameters) if parameters else None
        self._by_name = _fields_by_name(type, fields)
        self._fields = tuple(self._by_name.values())
        self._keys = keys
        self._values = values
        self._hash: int | None = None
        self.default: object = None
        if default is not None:
            try:
                self.default = fit(self, default)
            except DataException as error:
                raise SchemaBuilderException("Invalid default value") from error

    @property
    def fields(self) -> tuple[Field, ...]:
        if self.type is not Type.STRUCT:
            raise DataException("Cannot list fields on non-struct type")
        return self._fields

    def field(self, name: str) -> Field | None:
        if self.type is not Type.STRUCT:
            raise DataException("Cannot look up fields on non-struct type")
        return self._by_name.get(name)

    @property
    def keys(self) -> "Schema | None":
        if self.type is not Type.MAP:
            raise DataException("Cannot look up key schema on non-map type")
        return self._keys

    @property
    def values(self) -> "Schema | None":
        if self.type not in (Type.MAP, Type.ARRAY):
            raise DataException("Cannot look up value schema on non-array and non-map type")
        return self._values

    def described_as(self, name: str | None = _KEEP, version: int | None = _KEEP) -> "Schema":
        """The same schema under another name or version."""
        other = object.__new__(Schema)
        for slot in Schema.__slots__:
            setattr(other, slot, getattr(self, slot))
        if name is not _KEEP:
            other.name = name
        if version is not _KEEP:
            other.version = version
        other._hash = None
        return other

    def basics(self) -> dict[str, Any]:
        """Name, version, documentation and parameters, as arguments for a schema that takes them over."""
        return {"name": self.name, "version": self.version, "doc": self.doc, "parameters": self.parameters}

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Schema):
            return NotImplemented
        return (
            self.type is other.type
            and self.optional == other.optional
            and self.name == other.name
            and self.version == other.version
            and self.doc == other.doc
            and self.parameters == other.parameters
            and self._fields == other._fields
            and self._keys == other._keys
            and self._values == other._values
            and self.default == other.default
        )

    def __hash__(self) -> int:
        if self._hash is None:
            own = (self.type, self.optional, self.name, self.version, self.doc)
            self._hash = hash((own, self._fields, self._keys, self._values))
        return self._hash

    def __str__(self) -> str:
        named = f"{self.name}:" if self.name is not None else ""
        return f"Schema{{{named}{self.type.name}}}"

    __repr__ = __str__


def _fields_by_name(kind: Type, fields: "Iterable[tuple[str, Schema]]") -> dict[str, Field]:
    by_name: dict[str, Field] = {}
    for name, schema in fields:
        if kind is not Type.STRUCT:
            raise SchemaBuilderException(f"Cannot create fields on type {kind.name}")
        if not name:
            raise SchemaBuilderException("fieldName cannot be null.")
        if schema is None:
            raise SchemaBuilderException(f"fieldSchema for field {name} cannot be null.")
        if name in by_name:
            raise SchemaBuilderException(f"Cannot create field because of field name duplication {name}")
        by_name[name] = Field(name, len(by_name), schema)
    return by_name


def array(items: Schema | None, **options: Any) -> Schema:
    if items is None:
        raise SchemaBuilderException("valueSchema cannot be null.")
    return Schema(Type.ARRAY, values=items, **options)


def map_of(keys: Schema | None, values: Schema | None, **options: Any) -> Schema:
    if keys is None:
        raise SchemaBuilderException("keySchema cannot be null.")
    if values is None:
        raise SchemaBuilderException("valueSchema cannot be null.")
    return Schema(Type.MAP, keys=keys, values=values, **options)


def struct(fields: Mapping[str, Schema] | Iterable[tuple[str, Schema]], **options: Any) -> Schema:
    pairs = fields.items() if isinstance(fields, Mapping) else fields
    return Schema(Type.STRUCT, fields=pairs, **options)


def decimal(scale: int, **options: Any) -> Schema:
    return Schema(Type.BYTES, name=DECIMAL, version=1, parameters={"scale": str(scale)}, **options)


def date(**options: Any) -> Schema:
    return Schema(Type.INT32, name=DATE, version=1, **options)


def time(**options: Any) -> Schema:
    return Schema(Type.INT32, name=TIME, version=1, **options)


def timestamp(**options: Any) -> Schema:
    return Schema(Type.INT64, name=TIMESTAMP, version=1, **options)


class SchemaAndValue(NamedTuple):
    schema: Schema | None
    value: object


NOTHING = SchemaAndValue(None, None)


class Struct:
    """Values by the fields of a schema. A field without a value reads as its default."""

    java_class: ClassVar[str] = "org.apache.kafka.connect.data.Struct"
    __slots__ = ("_values", "schema")

    def __init__(self, schema: Schema, values: Mapping[str, object] | None = None) -> None:
        if schema.type is not Type.STRUCT:
            raise DataException(f"Not a struct schema: {schema}")
        self.schema = schema
        self._values: list[object] = [None] * len(schema.fields)
        for name, value in (values or {}).items():
            self.put(name, value)

    def put(self, name: str, value: object) -> "Struct":
        field = self._field(name)
        self._values[field.index] = fit(field.schema, value, f'field: "{name}"')
        return self

    def take(self, name: str, source: "Struct", original: str, replace_null: bool) -> None:
        """Puts what ``source`` has in its field ``original``; it fits where both have one schema."""
        field, other = self._field(name), source._field(original)
        value = source._values[other.index]
        if value is None and replace_null:
            value = other.schema.default
        if value is None or field.schema is not other.schema or field.schema.type in _NESTED:
            value = fit(field.schema, value, f'field: "{name}"')
        self._values[field.index] = value

    def set_unchecked(self, field: Field, value: object) -> None:
        """For readers that made ``value`` by the schema of ``field`` a moment ago."""
        self._values[field.index] = value

    def get(self, name: str) -> object:
        field = self._field(name)
        value = self._values[field.index]
        return field.schema.default if value is None else value

    def get_without_default(self, name: str) -> object:
        return self._values[self._field(name).index]

    def read(self, name: str, replace_null: bool) -> object:
        """The value of a field; its default for null where ``replace_null`` says so."""
        return self.get(name) if replace_null else self.get_without_default(name)

    def items(self) -> Iterable[tuple[Field, object]]:
        """Fields with their own values, defaults left out."""
        return zip(self.schema.fields, self._values, strict=True)

    def validate(self) -> None:
        for field, value in self.items():
            if value is None and (field.schema.optional or field.schema.default is not None):
                continue
            fit(field.schema, value, f'field: "{field.name}"')

    def _field(self, name: str) -> Field:
        field = self.schema.field(name)
        if field is None:
            raise DataException(f"{name} is not a valid field name")
        return field

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct):
            return NotImplemented
        return self._values == other._values and self.schema == other.schema

    def __hash__(self) -> int:
        return hash((self.schema, tuple(map(repr, self._values))))

    def __repr__(self) -> str:
        inner = ",".join(f"{field.name}={value}" for field, value in self.items() if value is not None)
        return f"Struct{{{inner}}}"


def fit(schema: Schema, value: object, location: str = "value") -> object:
    """``value`` as the schema has it: plain Python numbers and dates get its exact type.

    Raises DataException for a value of another type and for null where it is not allowed.
    """
    if value is None:
        if schema.optional:
            return None
        raise DataException(
            f"Invalid value: null used for required {location}, schema type: {schema.type.name}"
        )
    kind = schema.type
    if schema.name in _LOGICAL:
        return _fit_logical(schema, value, location)
    exact = EXACT.get(kind)
    if exact is not None:
        return value if type(value) is exact else _fit_number(schema, value, location)
    if kind is Type.STRUCT and isinstance(value, Struct):
        if value.schema != schema:
            raise DataException("Struct schemas do not match.")
        value.validate()
        return value
    if kind is Type.ARRAY and isinstance(value, list | tuple):
        return _fit_array(schema, value, location)
    if kind is Type.MAP and isinstance(value, dict):
        return _fit_map(schema, value, location)
    if isinstance(value, _PYTHON_TYPES[kind]):
        return value
    raise _misfit(schema, value, location)


_LOGICAL = frozenset({DECIMAL, DATE, TIME, TIMESTAMP})
_NESTED = frozenset({Type.STRUCT, Type.ARRAY, Type.MAP})
_PYTHON_TYPES: dict[Type, tuple[type, ...]] = {
    Type.BOOLEAN: (bool,),
    Type.STRING: (str,),
    Type.BYTES: (bytes, bytearray, memoryview),
    Type.ARRAY: (),
    Type.MAP: (),
    Type.STRUCT: (),
}


def _fit_logical(schema: Schema, value: object, location: str) -> object:
    if schema.name == DECIMAL:
        if isinstance(value, Decimal):
            return value
    elif isinstance(value, Instant):
        return value
    elif isinstance(value, datetime.date | datetime.time):
        return Instant.of(value)
    raise _misfit(schema, value, location)


def _fit_number(schema: Schema, value: object, location: str) -> object:
    """Plain numbers of Python take the width of the schema if they fit; sized ones must have it already."""
    width = INTEGERS.get(schema.type)
    if width is not None:
        if type(value) is int and width.holds(value):
            return width(value)
    elif type(value) is float:
        if schema.type is Type.FLOAT64:
            return Float64(value)
        if value != value or nearest_float32(value) == value or abs(value) < 3.4e38:
            return Float32(value)
    raise _misfit(schema, value, location)


def _fit_array(schema: Schema, value: "list[object] | tuple[object, ...]", location: str) -> object:
    items = _inner(schema.values, location)
    fitted = [fit(items, item, f"element of array {location}") for item in value]
    return value if all(new is old for new, old in zip(fitted, value, strict=True)) else fitted


def _fit_map(schema: Schema, value: dict[Any, object], location: str) -> object:
    keys, values = _inner(schema.keys, location), _inner(schema.values, location)
    fitted = {
        fit(keys, key, f"key of map {location}"): fit(values, item, f"value of map {location}")
        for key, item in value.items()
    }
    same = all(a is b for a, b in zip(fitted, value, strict=True)) and all(
        fitted[key] is value[key] for key in value
    )
    return value if same else fitted


def _inner(schema: Schema | None, location: str) -> Schema:
    if schema is None:
        raise DataException(f"No schema defined for {location}")
    return schema


def _misfit(schema: Schema, value: object, location: str) -> DataException:
    named = f' "{schema.name}"' if schema.name is not None else ""
    return DataException(
        f"Invalid Java object for schema{named} with type {schema.type.name}: "
        f"class {java_class(value)} for {location}"
    )
