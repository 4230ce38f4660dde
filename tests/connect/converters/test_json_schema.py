"""JSON Schema through a registry: what is written is read back, and what others wrote is understood."""

import json
from decimal import Decimal
from typing import Any

import pytest

from moldau.client.registry.schema_registry import RegisteredSchema
from moldau.connect.converters.json import JsonConverter
from moldau.connect.converters.json_schema import JsonSchemaConverter, connect_of
from moldau.connect.data.schema import Schema, Struct, array, date, decimal, map_of, struct, timestamp
from moldau.connect.data.types import Float64, Instant, Int8, Int32, Int64, Type
from moldau.connect.errors import DataException

VALUES = JsonConverter({"schemas.enable": "false"})


class Registry:
    """In memory."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def register(self, subject: str, text: str, schema_type: str) -> int:
        assert (subject, schema_type) == ("orders-value", "JSON")
        self.texts.append(text)
        return len(self.texts)

    def by_id(self, schema_id: int) -> RegisteredSchema:
        return RegisteredSchema(schema_id, "JSON", self.texts[schema_id - 1])


def converter(registry: Registry) -> JsonSchemaConverter:
    made = JsonSchemaConverter({"schema.registry.url": "http://localhost:1"})
    made.registry = registry  # type: ignore[assignment]
    return made


LINE = struct({"raw": Schema(Type.BYTES)}, name="shop.Line")
ORDER = struct(
    {
        "id": Schema(Type.INT8),
        "note": Schema(Type.STRING, optional=True),
        "count": Schema(Type.INT64, default=Int64(7)),
        "price": decimal(2),
        "day": date(optional=True),
        "at": timestamp(),
        "share": Schema(Type.FLOAT64),
        "tags": map_of(Schema(Type.STRING), Schema(Type.INT32)),
        "by_number": map_of(Schema(Type.INT32), Schema(Type.STRING, optional=True)),
        "lines": array(LINE),
    },
    name="shop.Order",
    version=3,
    doc="an order",
)
VALUE = Struct(
    ORDER,
    {
        "id": Int8(-3),
        "count": Int64(1),
        "price": Decimal("12.50"),
        "day": Instant(86_400_000),
        "at": Instant(5),
        "share": Float64(0.25),
        "tags": {"a": Int32(1)},
        "by_number": {Int32(1): "x", Int32(2): None},
        "lines": [Struct(LINE, {"raw": b"\0\xff"})],
    },
)


def test_a_struct_comes_back() -> None:
    registry = Registry()
    made = converter(registry)
    raw = made.from_connect("orders", ORDER, VALUE)
    assert raw is not None
    assert raw[:5] == b"\0\0\0\0\1"
    assert made.to_connect("orders", raw) == (ORDER, VALUE)
    made.from_connect("orders", ORDER, VALUE)
    assert len(registry.texts) == 1
    node = json.loads(registry.texts[0])
    assert (node["title"], node["connect.version"]) == ("shop.Order", 3)
    assert node["properties"]["note"] == {"oneOf": [{"type": "null"}, {"type": "string"}], "connect.index": 1}
    assert made.from_connect("orders", None, None) is None


def test_schemas_of_others() -> None:
    document: dict[str, Any] = {
        "type": "object",
        "title": "User",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": ["null", "integer"]},
            "home": {"$ref": "#/$defs/place"},
            "scores": {"type": "object", "additionalProperties": {"type": "number"}},
            "kind": {"enum": ["a", "b"]},
        },
        "required": ["name", "home", "scores", "kind"],
        "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}},
    }
    found = connect_of(document, VALUES)
    shapes = {field.name: (field.schema.type, field.schema.optional) for field in found.fields}
    assert shapes == {
        "name": (Type.STRING, False),
        "age": (Type.INT64, True),
        "home": (Type.STRUCT, False),
        "scores": (Type.MAP, False),
        "kind": (Type.STRING, False),
    }


@pytest.mark.parametrize(
    "document",
    [
        True,
        {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        {"$ref": "http://elsewhere/x.json"},
        {"$ref": "#"},
        {"type": "null"},
    ],
)
def test_what_connect_has_no_word_for(document: Any) -> None:
    with pytest.raises(DataException):
        connect_of(document, VALUES)


@pytest.mark.parametrize("raw", [b"", b"\1\0\0\0\1{}", b'\0\0\0\0\1{"id":', b'\0\0\0\0\1{"id":"x"}'])
def test_bytes_that_are_none(raw: bytes) -> None:
    registry = Registry()
    made = converter(registry)
    made.from_connect("orders", ORDER, VALUE)
    with pytest.raises(DataException):
        made.to_connect("orders", raw)
