"""Schemas of Connect as Avro's, with the attributes that Confluent's converter gives them, and back.

Invariant: a schema that was written is read back as the same schema; a type of Avro that Connect has no word
for is a DataException.
"""

from typing import Any

from moldau.connect.converters.avro_values import default_node, default_value
from moldau.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, array, map_of
from moldau.connect.data.types import Type
from moldau.connect.errors import DataException
from moldau.schemas.avro.types import AvroField, AvroType

NAMESPACE = "io.confluent.connect.avro"
ENTRY = "connect.internal.type"
_DEFAULT_NAME = f"{NAMESPACE}.ConnectDefault"
_ENUM = f"{NAMESPACE}.Enum"

_KINDS: dict[Type, str] = {
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_TYPES = {
    "int": Type.INT32,
    "long": Type.INT64,
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "boolean": Type.BOOLEAN,
    "string": Type.STRING,
    "bytes": Type.BYTES,
    "fixed": Type.BYTES,
    "enum": Type.STRING,
}
_LOGICAL = {DECIMAL: "decimal", DATE: "date", TIME: "time-millis", TIMESTAMP: "timestamp-millis"}
_NAMES = {logical: name for name, logical in _LOGICAL.items()}


def avro_of(schema: Schema) -> Any:
    """The schema as Avro's JSON."""
    return _Writer().type_of(schema)


class _Writer:
    """Remembers the records that were written: their second time is by name."""

    def __init__(self) -> None:
        self._records: dict[str, Schema] = {}
        self._entries = 0

    def type_of(self, schema: Schema) -> Any:
        plain = self._plain(schema)
        if not schema.optional:
            return plain
        return ["null", plain] if schema.default is None else [plain, "null"]

    def _plain(self, schema: Schema) -> Any:
        match schema.type:
            case Type.STRUCT:
                return self._record(schema)
            case Type.ARRAY:
                node: dict[str, Any] = {"type": "array", "items": self._inner(schema.values)}
            case Type.MAP:
                node = self._map(schema)
            case _:
                node = {"type": _KINDS[schema.type]}
                if schema.type in (Type.INT8, Type.INT16):
                    node["connect.type"] = schema.type.value
                node |= _logical(schema)
        node |= _attributes(schema)
        return node if len(node) > 1 else node["type"]

    def _inner(self, schema: Schema | None) -> Any:
        if schema is None:
            raise DataException("A schema without a type inside cannot be written as Avro")
        return self.type_of(schema)

    def _map(self, schema: Schema) -> dict[str, Any]:
        keys, values = schema.keys, schema.values
        if keys is not None and keys.type is Type.STRING and not keys.optional:
            return {"type": "map", "values": self._inner(values)}
        number = f"{self._entries}" if self._entries else ""
        self._entries += 1
        entry = {
            "type": "record",
            "name": f"MapEntry{number}",
            "namespace": NAMESPACE,
            "fields": [
                {"name": "key", "type": self._inner(keys)},
                {"name": "value", "type": self._inner(values)},
            ],
            ENTRY: "MapEntry",
        }
        return {"type": "array", "items": entry}

    def _record(self, schema: Schema) -> Any:
        full = schema.name or _DEFAULT_NAME
        known = self._records.get(full)
        if known is not None:
            if (known.fields, known.basics()) != (schema.fields, schema.basics()):
                raise DataException(f"Two structs with different fields have the name {full}")
            return full
        self._records[full] = schema
        namespace, _, name = full.rpartition(".")
        node: dict[str, Any] = {"type": "record", "name": name}
        if namespace:
            node["namespace"] = namespace
        if schema.doc is not None:
            node["doc"] = schema.doc
        node["fields"] = [self._field(field.name, field.schema) for field in schema.fields]
        return node | _attributes(schema)

    def _field(self, name: str, schema: Schema) -> dict[str, Any]:
        node: dict[str, Any] = {"name": name, "type": self.type_of(schema)}
        if schema.default is not None:
            node["default"] = default_node(schema, schema.default)
        elif schema.optional:
            node["default"] = None
        return node


def _logical(schema: Schema) -> dict[str, Any]:
    logical = _LOGICAL.get(schema.name or "")
    if logical is None:
        return {}
    node: dict[str, Any] = {"logicalType": logical}
    if logical == "decimal":
        scale = int((schema.parameters or {}).get("scale", "0"))
        # Avro has no scale below zero: such a decimal is plain bytes to others.
        return {"scale": scale, "precision": 64, **node} if scale >= 0 else {}
    return node


def _attributes(schema: Schema) -> dict[str, Any]:
    node: dict[str, Any] = {}
    if schema.version is not None:
        node["connect.version"] = schema.version
    if schema.doc is not None and schema.type is not Type.STRUCT:
        node["connect.doc"] = schema.doc
    if schema.parameters is not None:
        node["connect.parameters"] = dict(schema.parameters)
    if schema.name is not None:
        node["connect.name"] = schema.name
    return node


def connect_of(avro: AvroType, inside: frozenset[str] = frozenset()) -> Schema:
    """The schema of Connect that describes values of an Avro type."""
    if avro.kind == "union":
        others = [branch for branch in avro.branches if branch.kind != "null"]
        if len(others) != 1 or len(others) == len(avro.branches):
            raise DataException("A union of Avro other than null and one type is not supported")
        return _described(others[0], inside, optional=True)
    return _described(avro, inside, optional=False)


def _described(avro: AvroType, inside: frozenset[str], optional: bool, default: Any = None) -> Schema:
    properties = avro.properties
    options: dict[str, Any] = {
        "optional": optional,
        "name": properties.get("connect.name"),
        "version": properties.get("connect.version"),
        "doc": properties.get("connect.doc"),
        "parameters": properties.get("connect.parameters"),
    }
    match avro.kind:
        case "record":
            if avro.name in inside:
                raise DataException(f"A schema that contains itself is not supported: {avro.name}")
            if options["name"] is None and avro.name != _DEFAULT_NAME:
                options["name"] = avro.name
            options["doc"] = options["doc"] or avro.doc
            fields = [(each.name, _field(each, inside | {avro.name})) for each in avro.fields]
            return Schema(Type.STRUCT, fields=fields, **options)
        case "array" if avro.item.properties.get(ENTRY) == "MapEntry":
            key, value = (connect_of(each.type, inside) for each in avro.item.fields)
            return map_of(key, value, **options)
        case "array":
            return array(connect_of(avro.item, inside), **options)
        case "map":
            return map_of(Schema(Type.STRING), connect_of(avro.item, inside), **options)
        case "null":
            raise DataException("The type null of Avro is not supported alone")
    return Schema(_single(avro, options), **options)


def _single(avro: AvroType, options: dict[str, Any]) -> Type:
    """The type of a single value; logical types and enums add to the options of their schema."""
    properties = avro.properties
    logical = _NAMES.get(str(properties.get("logicalType")))
    if logical is not None and options["name"] is None and avro.logical is not None:
        options |= {"name": logical, "version": options["version"] or 1}
        if logical == DECIMAL:
            options["parameters"] = {"scale": str(properties.get("scale", 0))}
    if avro.kind == "enum" and options["parameters"] is None:
        options["parameters"] = {_ENUM: avro.name, **{f"{_ENUM}.{symbol}": symbol for symbol in avro.symbols}}
    narrow = properties.get("connect.type")
    if avro.kind == "int" and narrow in ("int8", "int16"):
        return Type(narrow)
    return _TYPES[avro.kind]


def _field(field: AvroField, inside: frozenset[str]) -> Schema:
    plain = connect_of(field.type, inside)
    if not field.has_default or field.default is None:
        return plain
    return Schema(
        plain.type,
        optional=plain.optional,
        default=default_value(plain, field.default),
        fields=[(each.name, each.schema) for each in plain.fields] if plain.type is Type.STRUCT else (),
        keys=plain.keys if plain.type is Type.MAP else None,
        values=plain.values if plain.type in (Type.MAP, Type.ARRAY) else None,
        **plain.basics(),
    )
