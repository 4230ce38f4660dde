"""JsonConverter: values as JSON, with their schema beside them or without one.

Apache's reads a number that does not fit as another number and a text as 0. The strict mode, which is the
default, refuses those; it reads exactly what it would write.
"""

import base64
import marshal
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings, Width
from moldau.connect.config.validators import OneOfAnyCase
from moldau.connect.converters import json_text
from moldau.connect.converters.base import CONVERTER_TYPE, Converter
from moldau.connect.converters.json_schemas import schema_from_json, schema_to_json
from moldau.connect.converters.json_text import MISSING
from moldau.connect.data import logical
from moldau.connect.data.numbers import narrow, scale_of, to_double
from moldau.connect.data.schema import (
    DATE,
    DECIMAL,
    NOTHING,
    TIME,
    TIMESTAMP,
    Schema,
    SchemaAndValue,
    Struct,
)
from moldau.connect.data.text import base64_text, java_text
from moldau.connect.data.types import (
    INTEGERS,
    Float32,
    Float64,
    Instant,
    Int32,
    Int64,
    Sized,
    Type,
    is_number,
    java_class,
    type_without_schema,
)
from moldau.connect.errors import (
    DataException,
    InvalidFormatException,
    JavaError,
    NullPointerException,
    SerializationException,
)

_ENVELOPE = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional '
    "fields. If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter "
    "configuration."
)
_BASE64 = re.compile(r"(?:\s*[A-Za-z0-9+/]{4})*(?:\s*[A-Za-z0-9+/]{2}==|\s*[A-Za-z0-9+/]{3}=)?\s*", re.ASCII)
_FLOAT_WORDS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_MOMENTS: dict[str, tuple[str, Callable[[Schema, Instant], int], Callable[[Schema, int], Instant]]] = {
    DATE: ("Date", logical.date_to_days, logical.date_from_days),
    TIME: ("Time", logical.time_to_millis, logical.time_from_millis),
    TIMESTAMP: ("Timestamp", logical.timestamp_to_millis, logical.timestamp_from_millis),
}


class JsonConverter(Converter):
    config = ConfigDef(
        CONVERTER_TYPE,
        ConfigKey(
            "schemas.enable",
            ConfigType.BOOLEAN,
            True,
            Importance.HIGH,
            "Whether the schema stands beside each value.",
            group="Schemas",
            order=0,
            width=Width.MEDIUM,
            display_name="Enable Schemas",
        ),
        ConfigKey(
            "schemas.cache.size",
            ConfigType.INT,
            1000,
            Importance.HIGH,
            "How many schemas are remembered.",
            group="Schemas",
            order=1,
            width=Width.MEDIUM,
            display_name="Schema Cache Size",
        ),
        ConfigKey(
            "schema.content",
            ConfigType.STRING,
            None,
            Importance.HIGH,
            "A schema as JSON that all records read have; they are payloads without an envelope then.",
            group="Schemas",
            order=2,
            width=Width.MEDIUM,
            display_name="Schema Content",
        ),
        ConfigKey(
            "decimal.format",
            ConfigType.STRING,
            "BASE64",
            Importance.LOW,
            "How decimals are written: as bytes in base64, or as numbers. Both are read.",
            OneOfAnyCase("NUMERIC", "BASE64"),
            group="Serialization",
            order=0,
            width=Width.MEDIUM,
            display_name="Decimal Format",
        ),
        ConfigKey(
            "replace.null.with.default",
            ConfigType.BOOLEAN,
            True,
            Importance.LOW,
            "Whether fields that are null and have a default value are written and read as that default.",
            group="Serialization",
            order=1,
            width=Width.MEDIUM,
            display_name="Replace null with default",
        ),
    )

    def configure(self, settings: Settings) -> None:
        self._with_schemas: bool = settings["schemas.enable"]
        self._cache_size: int = settings["schemas.cache.size"]
        self._numeric: bool = settings["decimal.format"].upper() == "NUMERIC"
        self._replace_null: bool = settings["replace.null.with.default"]
        self._written: dict[Schema, bytes] = {}
        self._read: dict[bytes, Schema] = {}
        self._schema: Schema | None = None
        content: str | None = settings["schema.content"]
        if content:
            try:
                node = json_text.read(content.encode(), whole=False)
                self._schema = schema_from_json(node, self.value_of, not self.like_kafka)
            except SerializationException as error:
                raise DataException(
                    "Failed to parse schema in converter config due to serialization error: "
                ) from error

    # --- writing ------------------------------------------------------------------------------------

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        if schema is None and value is None:
            return None
        if not self._with_schemas:
            return json_text.write(self.node_of(schema, value))
        envelope = self._schema_bytes(schema)
        return b'{"schema":%b,"payload":%b}' % (envelope, json_text.write(self.node_of(schema, value)))

    def _schema_bytes(self, schema: Schema | None) -> bytes:
        if schema is None:
            return b"null"
        written = self._written.get(schema)
        if written is None:
            written = json_text.write(schema_to_json(schema, self.node_of))
            if len(self._written) >= max(1, self._cache_size):
                self._written.clear()
            self._written[schema] = written
        return written

    def node_of(self, schema: Schema | None, value: object) -> object:
        """A value as JSON has it."""
        if value is None:
            if schema is None:
                return None
            if schema.default is not None and self._replace_null:
                return self.node_of(schema, schema.default)
            if schema.optional:
                return None
            raise DataException(
                "Conversion error: null value for field that is required and has no default value"
            )
        if schema is not None and schema.name is not None:
            if schema.name == DECIMAL:
                return self._decimal_node(schema, value)
            if schema.name in _MOMENTS:
                return _moment_node(schema, value)
        kind = type_without_schema(value) if schema is None else schema.type
        if kind is None:
            raise DataException(
                f"Java class class {java_class(value)} does not have corresponding schema type."
            )
        return self._plain_node(kind, schema, value)

    def _plain_node(self, kind: Type, schema: Schema | None, value: object) -> object:
        match kind:
            case Type.STRING if isinstance(value, str):
                return value
            case Type.BOOLEAN if isinstance(value, bool):
                return value
            case Type.BYTES:
                if not isinstance(value, bytes | bytearray | memoryview):
                    raise DataException(f"Invalid type for bytes type: class {java_class(value)}")
                return base64_text(value)
            case Type.ARRAY if isinstance(value, list | tuple):
                items = None if schema is None else schema.values
                return [self.node_of(items, item) for item in value]
            case Type.MAP if isinstance(value, dict):
                return self._map_node(schema, value)
            case Type.STRUCT if isinstance(value, Struct):
                if schema is not None and value.schema != schema:
                    raise DataException("Mismatching schema.")
                return {field.name: self.node_of(field.schema, item) for field, item in value.items()}
            case _ if type_without_schema(value) is kind or _fits(kind, value):
                return value
        known = "unknown schema" if schema is None else schema.type.name
        raise DataException(f"Invalid type for {known}: class {java_class(value)}")

    def _map_node(self, schema: Schema | None, value: dict[Any, object]) -> object:
        keys, values = (None, None) if schema is None else (schema.keys, schema.values)
        if schema is not None and keys is None:
            raise NullPointerException(
                'Cannot invoke "org.apache.kafka.connect.data.Schema.type()" because the return value of '
                '"org.apache.kafka.connect.data.Schema.keySchema()" is null'
            )
        by_text = all(isinstance(key, str) for key in value) if keys is None else keys.type is Type.STRING
        entries = [(self.node_of(keys, key), self.node_of(values, item)) for key, item in value.items()]
        if by_text:
            return {key if isinstance(key, str) else java_text(key): item for key, item in entries}
        return [[key, item] for key, item in entries]

    def _decimal_node(self, schema: Schema, value: object) -> object:
        if not isinstance(value, Decimal):
            raise DataException(
                f"Invalid type for Decimal, expected BigDecimal but was class {java_class(value)}"
            )
        return value if self._numeric else base64_text(logical.decimal_to_bytes(schema, value))

    # --- reading ------------------------------------------------------------------------------------

    def to_connect(self, topic: str, raw: bytes | None) -> SchemaAndValue:
        if raw is None:
            return NOTHING
        try:
            node = json_text.read(bytes(raw), whole=not self.like_kafka)
        except SerializationException as error:
            detail = "" if self.like_kafka else error.message
            raise DataException(
                f"Converting byte[] to Kafka Connect data failed due to serialization error: {detail}"
            ) from error
        if not self._with_schemas:
            return SchemaAndValue(None, self.value_of(None, node))
        if self._schema is not None:
            return SchemaAndValue(self._schema, self.value_of(self._schema, node))
        if not isinstance(node, dict) or node.keys() != {"schema", "payload"}:
            raise DataException(_ENVELOPE)
        schema = self._schema_of(node["schema"])
        return SchemaAndValue(schema, self.value_of(schema, node["payload"]))

    def _schema_of(self, node: Any) -> Schema | None:
        if node is None:
            return None
        try:
            key = marshal.dumps(node, 2)  # a fifth of the time that its JSON text takes, for each record
        except ValueError:  # a default with a fraction is a Decimal
            key = json_text.write(node)
        schema = self._read.get(key)
        if schema is None:
            schema = schema_from_json(node, self.value_of, not self.like_kafka)
            assert schema is not None
            if len(self._read) >= max(1, self._cache_size):
                self._read.clear()
            self._read[key] = schema
        return schema

    def value_of(self, schema: Schema | None, node: object) -> object:
        """The value that JSON stands for."""
        if node is None or (node is MISSING and not (self.like_kafka and schema is not None)):
            if schema is None:
                return None
            if schema.default is not None and self._replace_null:
                return schema.default
            if schema.optional:
                return None
            raise DataException(f"Invalid null value for required {schema.type.name} field")
        if schema is None:
            return self._free_value(node)
        if schema.name == DECIMAL:
            return self._decimal(schema, node)
        if schema.name in _MOMENTS:
            return _moment(schema, node)
        width = INTEGERS.get(schema.type)
        if width is not None:
            return self._integer(width, node)
        return _READERS[schema.type](self, schema, node)

    def _free_value(self, node: object) -> object:
        if isinstance(node, list):
            return [self.value_of(None, item) for item in node]
        if isinstance(node, dict):
            return {name: self.value_of(None, item) for name, item in node.items()}
        if isinstance(node, Decimal):
            return Float64(to_double(node))
        if isinstance(node, int) and not isinstance(node, bool):
            return self._integer(Int64, node)
        return node

    def _integer(self, width: type[Sized], node: object) -> object:
        if self.like_kafka:
            if not is_number(node):
                return width(0)
            first = narrow(node, Int64 if width is Int64 else Int32)
            return width.wrapped(first)
        if not isinstance(node, int) or isinstance(node, bool):
            raise _unfit(f"INT{width.bits}", node)
        if not width.holds(node):
            raise DataException(f"Value ({node}) was out of range for INT{width.bits}")
        return width(node)

    def _boolean(self, schema: Schema, node: object) -> object:
        if isinstance(node, bool):
            return node
        if self.like_kafka:
            return False
        raise _unfit("BOOLEAN", node)

    def _text(self, schema: Schema, node: object) -> object:
        if isinstance(node, str):
            return node
        if self.like_kafka:
            return None
        raise _unfit("STRING", node)

    def _bytes(self, schema: Schema, node: object) -> object:
        if isinstance(node, str):
            try:
                return _decode_base64(node)
            except InvalidFormatException as error:
                raise DataException("Invalid bytes field") from error
        if self.like_kafka:
            return None
        raise _unfit("BYTES", node)

    def _float(self, schema: Schema, node: object) -> object:
        exact: type[Float32] | type[Float64] = Float32 if schema.type is Type.FLOAT32 else Float64
        if isinstance(node, int | Decimal) and not isinstance(node, bool):
            return Float32(node) if exact is Float32 else Float64(to_double(node))
        if self.like_kafka:
            return exact(0.0)
        if isinstance(node, str) and node in _FLOAT_WORDS:
            return exact(_FLOAT_WORDS[node])
        raise _unfit(schema.type.name, node)

    def _list(self, schema: Schema, node: object) -> object:
        if not isinstance(node, list):
            if not self.like_kafka:
                raise _unfit("ARRAY", node)
            node = list(node.values()) if isinstance(node, dict) else []
        return [self.value_of(schema.values, item) for item in node]

    def _map(self, schema: Schema, node: object) -> object:
        keys, values = schema.keys, schema.values
        if keys is not None and keys.type is Type.STRING:
            if not isinstance(node, dict):
                raise DataException(
                    f"Maps with string fields should be encoded as JSON objects, but found {_node_type(node)}"
                )
            return {name: self.value_of(values, item) for name, item in node.items()}
        if not isinstance(node, list):
            raise DataException(
                "Maps with non-string fields should be encoded as JSON array of tuples, but found "
                f"{_node_type(node)}"
            )
        entries: dict[Any, object] = {}
        for entry in node:
            if not isinstance(entry, list):
                raise DataException(f"Found invalid map entry instead of array tuple: {_node_type(entry)}")
            if len(entry) != 2:
                raise DataException(f"Found invalid map entry, expected length 2 but found :{len(entry)}")
            key = self.value_of(keys, entry[0])
            entries[tuple(key) if isinstance(key, list) else key] = self.value_of(values, entry[1])
        return entries

    def _struct(self, schema: Schema, node: object) -> object:
        if not isinstance(node, dict):
            raise DataException(f"Structs should be encoded as JSON objects, but found {_node_type(node)}")
        struct = Struct(schema)
        for field in schema.fields:
            struct.put(field.name, self.value_of(field.schema, node.get(field.name)))
        return struct

    def _decimal(self, schema: Schema, node: object) -> Decimal:
        if isinstance(node, int | Decimal) and not isinstance(node, bool):
            number = node if isinstance(node, Decimal) else Decimal(node)
            return number if self.like_kafka else _rescaled(schema, number)
        if isinstance(node, str):
            try:
                return logical.decimal_from_bytes(schema, _decode_base64(node))
            except JavaError as error:
                raise DataException("Invalid bytes for Decimal field") from error
        raise DataException(
            "Invalid type for Decimal, underlying representation should be numeric or bytes but was "
            f"{_node_type(node)}"
        )


_READERS: dict[Type, Callable[[JsonConverter, Schema, object], object]] = {
    Type.BOOLEAN: JsonConverter._boolean,
    Type.STRING: JsonConverter._text,
    Type.BYTES: JsonConverter._bytes,
    Type.FLOAT32: JsonConverter._float,
    Type.FLOAT64: JsonConverter._float,
    Type.ARRAY: JsonConverter._list,
    Type.MAP: JsonConverter._map,
    Type.STRUCT: JsonConverter._struct,
}


def _fits(kind: Type, value: object) -> bool:
    """Whether a plain number of Python can stand for the type of a schema."""
    width = INTEGERS.get(kind)
    if width is not None:
        return type(value) is int and width.holds(value)
    return kind in (Type.FLOAT32, Type.FLOAT64) and type(value) is float


def _moment_node(schema: Schema, value: object) -> int:
    kind, write, _ = _MOMENTS[schema.name or ""]
    if not isinstance(value, Instant):
        raise DataException(f"Invalid type for {kind}, expected Date but was class {java_class(value)}")
    return write(schema, value)


def _moment(schema: Schema, node: object) -> Instant:
    kind, _, read = _MOMENTS[schema.name or ""]
    width, word = (Int64, "integral") if schema.name == TIMESTAMP else (Int32, "integer")
    fits = isinstance(node, int) and not isinstance(node, bool)
    if not fits or (width is Int32 and not Int32.holds(node)):  # type: ignore[arg-type]
        raise DataException(
            f"Invalid type for {kind}, underlying representation should be {word} but was {_node_type(node)}"
        )
    assert isinstance(node, int)
    return read(schema, width.wrapped(node))


def _rescaled(schema: Schema, number: Decimal) -> Decimal:
    """The number with the scale of its schema, if it needs no more digits than that."""
    scale = logical.decimal_scale(schema)
    if scale_of(number) == scale:
        return number
    scaled = number.scaleb(scale)
    if scaled != scaled.to_integral_value():
        raise DataException(f"Value ({number}) has more digits than the scale {scale} of its schema")
    return Decimal((number.as_tuple().sign, Decimal(int(abs(scaled))).as_tuple().digits, -scale))


def _decode_base64(text: str) -> bytes:
    """Base64 with its padding; spaces may stand between groups of four."""
    if _BASE64.fullmatch(text) is None:
        raise InvalidFormatException(f"Cannot read bytes from {text[:40]!r}")
    return base64.b64decode(text)


def _unfit(wanted: str, node: object) -> DataException:
    return DataException(f"A value of type {wanted} cannot be read from a JSON {_node_type(node)}")


def _node_type(node: object) -> str:
    if node is None:
        return "NULL"
    if node is MISSING:
        return "MISSING"
    if isinstance(node, bool):
        return "BOOLEAN"
    if isinstance(node, str):
        return "STRING"
    if isinstance(node, dict):
        return "OBJECT"
    return "ARRAY" if isinstance(node, list) else "NUMBER"
