"""Avro through a registry: what is written is read back, as Confluent's serializers and ours read it too."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.registry.errors import RegistryError
from moldau.client.registry.schema_registry import RegisteredSchema
from moldau.connect.converters.avro import AvroConverter
from moldau.connect.converters.avro_schemas import avro_of
from moldau.connect.data.schema import (
    Schema,
    SchemaAndValue,
    Struct,
    array,
    date,
    decimal,
    map_of,
    struct,
    time,
    timestamp,
)
from moldau.connect.data.types import Float32, Float64, Instant, Int8, Int16, Int32, Int64, Type
from moldau.connect.errors import DataException, RetriableException
from moldau.schemas.avro.parse import parse_with_texts
from moldau.serde.compiled_avro.decode import compile_decoder


class Registry:
    """A registry in memory; ``away`` says that it does not answer."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.subjects: list[str] = []
        self.away = False

    def register(self, subject: str, text: str, schema_type: str = "AVRO") -> int:
        if self.away:
            raise RegistryError(0, 0, "away")
        self.subjects.append(subject)
        self.texts.append(text)
        return len(self.texts)

    def by_id(self, schema_id: int) -> RegisteredSchema:
        if schema_id > len(self.texts):
            raise RegistryError(404, 40403, "Schema not found")
        return RegisteredSchema(schema_id, "AVRO", self.texts[schema_id - 1])


def converter(registry: Registry) -> AvroConverter:
    made = AvroConverter({"schema.registry.url": "http://127.0.0.1:1"})
    made.registry = registry  # type: ignore[assignment]
    return made


ORDER = struct(
    {
        "id": Schema(Type.INT8),
        "note": Schema(Type.STRING, optional=True),
        "count": Schema(Type.INT64, default=Int64(7)),
        "price": decimal(2),
        "day": date(optional=True),
        "at": timestamp(),
        "of_day": time(),
        "tags": map_of(Schema(Type.STRING), Schema(Type.INT32)),
        "by_number": map_of(Schema(Type.INT32), Schema(Type.STRING, optional=True)),
        "lines": array(struct({"raw": Schema(Type.BYTES)}, name="shop.Line")),
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
        "of_day": Instant(7),
        "tags": {"a": Int32(1)},
        "by_number": {Int32(1): "x", Int32(2): None},
        "lines": [Struct(struct({"raw": Schema(Type.BYTES)}, name="shop.Line"), {"raw": b"\0\xff"})],
    },
)


def test_a_struct_comes_back() -> None:
    registry = Registry()
    made = converter(registry)
    raw = made.from_connect("orders", ORDER, VALUE)
    assert made.to_connect("orders", raw) == (ORDER, VALUE)
    assert registry.subjects == ["orders-value"]
    made.from_connect("orders", ORDER, VALUE)
    assert len(registry.texts) == 1


def test_the_schema_has_confluents_attributes() -> None:
    node = avro_of(ORDER)
    assert (node["namespace"], node["name"], node["connect.version"]) == ("shop", "Order", 3)
    fields = {field["name"]: field for field in node["fields"]}
    assert fields["id"]["type"] == {"type": "int", "connect.type": "int8"}
    assert fields["note"] == {"name": "note", "type": ["null", "string"], "default": None}
    assert fields["count"] == {"name": "count", "type": "long", "default": 7}
    assert fields["price"]["type"] == {
        "type": "bytes",
        "scale": 2,
        "precision": 64,
        "logicalType": "decimal",
        "connect.version": 1,
        "connect.parameters": {"scale": "2"},
        "connect.name": "org.apache.kafka.connect.data.Decimal",
    }
    assert fields["at"]["type"]["logicalType"] == "timestamp-millis"
    assert fields["by_number"]["type"]["items"]["name"] == "MapEntry"


def test_other_readers_of_avro_read_it() -> None:
    registry = Registry()
    raw = converter(registry).from_connect("orders", ORDER, VALUE)
    assert raw is not None
    read = compile_decoder(parse_with_texts(registry.texts[0]))(raw, 5)
    assert read["price"] == Decimal("12.50")
    assert read["day"].isoformat() == "1970-01-02"
    assert read["tags"] == {"a": 1}


def test_schemas_of_others_are_read() -> None:
    registry = Registry()
    text = {
        "type": "record",
        "name": "x.Y",
        "fields": [
            {"name": "colour", "type": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}},
            {
                "name": "amount",
                "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1}],
            },
            {"name": "limit", "type": "int", "default": 3},
        ],
    }
    registry.register("t-value", json.dumps(text))
    found = converter(registry).to_connect("t", b"\0\0\0\0\1" + b"\2" + b"\2\2\x0f" + b"\x08")
    assert found.schema is not None
    assert found.schema.name == "x.Y"
    assert isinstance(found.value, Struct)
    assert found.value.get("colour") == "BLUE"
    assert found.value.get("amount") == Decimal("1.5")
    limit = found.schema.field("limit")
    assert limit is not None
    assert limit.schema.default == 3


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (decimal(1), Decimal("-0.5")),
        (Schema(Type.BYTES), b"abc"),
        (Schema(Type.STRING), "x"),
        (Schema(Type.INT16, optional=True), Int16(-5)),
        (timestamp(optional=True), Instant(-1)),
        (array(Schema(Type.FLOAT32)), [Float32(1.5)]),
        (map_of(Schema(Type.STRING), decimal(2)), {"a": Decimal("1.00")}),
        (
            struct({"a": Schema(Type.FLOAT64)}),
            Struct(struct({"a": Schema(Type.FLOAT64)}), {"a": Float64(0.5)}),
        ),
    ],
)
def test_values_of_every_kind_at_the_top(schema: Schema, value: object) -> None:
    made = converter(Registry())
    assert made.to_connect("t", made.from_connect("t", schema, value)) == (schema, value)


def test_what_cannot_be_done_says_why() -> None:
    registry = Registry()
    made = converter(registry)
    assert made.from_connect("t", None, None) is None
    assert made.to_connect("t", None) == (None, None)
    with pytest.raises(DataException, match="there is no schema id before it"):
        made.to_connect("t", b"{}")
    with pytest.raises(DataException, match="Schema not found"):
        made.to_connect("t", b"\0\0\0\0\x09x")
    with pytest.raises(DataException, match="needs a schema"):
        made.from_connect("t", None, {"a": 1})
    with pytest.raises(DataException, match="Invalid Java object"):
        made.from_connect("t", Schema(Type.INT32), "x")
    registry.register("t-value", '["int","string"]')
    with pytest.raises(DataException, match="union of Avro"):
        made.to_connect("t", b"\0" + len(registry.texts).to_bytes(4, "big") + b"\0\2")
    registry.away = True
    with pytest.raises(RetriableException, match="cannot be asked"):
        made.from_connect("other", Schema(Type.INT32), Int32(1))


SINGLE: list[tuple[Schema, "st.SearchStrategy[Any]"]] = [
    (Schema(Type.INT8), st.integers(-128, 127).map(Int8)),
    (Schema(Type.INT64), st.integers(-(2**63), 2**63 - 1).map(Int64)),
    (Schema(Type.FLOAT32), st.floats(width=32, allow_nan=False).map(Float32)),
    (Schema(Type.BOOLEAN), st.booleans()),
    (Schema(Type.STRING), st.text()),
    (Schema(Type.BYTES), st.binary()),
    (decimal(3), st.integers(-(10**20), 10**20).map(lambda number: Decimal(number).scaleb(-3))),
    (timestamp(), st.integers(-(10**13), 10**13).map(Instant)),
]


@st.composite
def values(draw: st.DrawFn) -> SchemaAndValue:
    chosen = draw(st.lists(st.sampled_from(SINGLE), max_size=4))
    fields = {f"f{number}": schema for number, (schema, _) in enumerate(chosen)}
    schema = struct(fields, name="r.R")
    return SchemaAndValue(schema, Struct(schema, {f"f{n}": draw(made) for n, (_, made) in enumerate(chosen)}))


@pytest.mark.slow
@given(values())
def test_any_struct_comes_back(found: SchemaAndValue) -> None:
    made = converter(Registry())
    assert made.to_connect("t", made.from_connect("t", found.schema, found.value)) == found
