"""Values of Connect as Avro carries them: logical types as their numbers and bytes, structs as dicts; and
back.
"""

from decimal import Decimal
from typing import Any

from moldau.connect.data import logical
from moldau.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Struct, fit
from moldau.connect.data.types import EXACT, Instant, Type
from moldau.connect.errors import DataException


def to_avro(schema: Schema, value: object) -> Any:
    """A value for the encoder; its schema says what it must be."""
    if value is None:
        if schema.default is not None:
            return to_avro(schema, schema.default)
        if schema.optional:
            return None
        raise DataException("Found null value for non-optional schema")
    checked = fit(schema, value)
    if isinstance(checked, Decimal):
        return logical.decimal_to_bytes(schema, checked)
    if isinstance(checked, Instant):
        return _number(schema, checked)
    if isinstance(checked, Struct):
        return {field.name: to_avro(field.schema, item) for field, item in checked.items()}
    if isinstance(checked, list | tuple):
        assert schema.values is not None
        return [to_avro(schema.values, item) for item in checked]
    if isinstance(checked, dict):
        return _map_to_avro(schema, checked)
    if isinstance(checked, bytearray | memoryview):
        return bytes(checked)
    return _unsized(checked)


def _unsized(value: object) -> object:
    """The encoder knows Python's own numbers only."""
    if isinstance(value, bool | str | bytes):
        return value
    return int(value) if isinstance(value, int) else float(value) if isinstance(value, float) else value


def _number(schema: Schema, value: Instant) -> int:
    if schema.name == DATE:
        return logical.date_to_days(schema, value)
    return logical.time_to_millis(schema, value) if schema.name == TIME else value.epoch_ms


def _map_to_avro(schema: Schema, value: dict[Any, object]) -> Any:
    keys, values = schema.keys, schema.values
    assert keys is not None
    assert values is not None
    if keys.type is Type.STRING and not keys.optional:
        return {key: to_avro(values, item) for key, item in value.items()}
    return [{"key": to_avro(keys, key), "value": to_avro(values, item)} for key, item in value.items()]


def from_avro(schema: Schema, value: Any) -> object:
    """What the decoder gave, as a value of the schema."""
    if value is None:
        return None
    if schema.name == DECIMAL:
        return logical.decimal_from_bytes(schema, value)
    if schema.name == DATE:
        return logical.date_from_days(schema, value)
    if schema.name in (TIME, TIMESTAMP):
        return Instant(value)
    match schema.type:
        case Type.STRUCT:
            struct = Struct(schema)
            for field in schema.fields:
                struct.put(field.name, from_avro(field.schema, value.get(field.name)))
            return struct
        case Type.ARRAY:
            assert schema.values is not None
            return [from_avro(schema.values, item) for item in value]
        case Type.MAP:
            assert schema.keys is not None
            assert schema.values is not None
            entries = (
                value.items() if isinstance(value, dict) else ((each["key"], each["value"]) for each in value)
            )
            return {from_avro(schema.keys, key): from_avro(schema.values, item) for key, item in entries}
    exact = EXACT.get(schema.type)
    return value if exact is None else exact(value)


def default_node(schema: Schema, value: object) -> Any:
    """A default in Avro's JSON, where bytes are a text of their numbers."""
    found = to_avro(schema, value)
    return found.decode("latin-1") if isinstance(found, bytes) else found


def default_value(schema: Schema, node: Any) -> object:
    is_bytes = schema.type is Type.BYTES and isinstance(node, str)
    return from_avro(schema, node.encode("latin-1") if is_bytes else node)
