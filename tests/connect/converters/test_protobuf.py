"""Protobuf through a real registry: what is written is read back, and what Confluent's serializer wrote."""

from collections.abc import Iterator

import pytest

from moldau.connect.converters.catalogue import converter
from moldau.connect.converters.protobuf import file_for
from moldau.connect.data.schema import Schema, Struct, array, decimal, map_of, struct, timestamp
from moldau.connect.data.types import Instant, Type
from moldau.connect.errors import DataException
from moldau.schemas.protobuf.text import proto_text
from moldau.serde.protobuf import ProtobufSerializer
from moldau.testing import Broker
from tests.shared.services import running_registry

NAME = "io.confluent.connect.protobuf.ProtobufConverter"
LINE = struct({"sku": Schema(Type.STRING), "raw": Schema(Type.BYTES)}, name="x", optional=True)
ORDER = struct(
    {
        "id": Schema(Type.INT64),
        "note": Schema(Type.STRING, optional=True),
        "share": Schema(Type.FLOAT64),
        "at": timestamp(optional=True),
        "tags": map_of(Schema(Type.STRING), Schema(Type.INT32)),
        "item_lines": array(LINE),
        "first": LINE,
    },
    name="shop.Order",
)
LINE_VALUE = Struct(LINE, {"sku": "a", "raw": b"\xff"})
VALUES = {"id": 5, "share": 0.5, "at": Instant(1500), "tags": {"x": 1}, "item_lines": [LINE_VALUE]}


def test_the_text_of_a_schema() -> None:
    text = proto_text(file_for(ORDER))
    for line in (
        "package shop;",
        "message Order {",
        "int64 id = 1;",
        "optional string note = 2;",
        "google.protobuf.Timestamp at = 4;",
        "map<string, int32> tags = 5;",
    ):
        assert line in text


@pytest.mark.parametrize(
    "schema",
    [
        struct({"d": decimal(2)}, name="R"),
        struct({"a b": Schema(Type.STRING)}, name="R"),
        struct({"a": Schema(Type.STRING)}, name="no name"),
        struct({"a": array(array(Schema(Type.STRING)))}, name="R"),
    ],
)
def test_what_protobuf_cannot_carry(schema: Schema) -> None:
    with pytest.raises(DataException):
        file_for(schema)


@pytest.fixture(scope="module")
def url(broker: Broker) -> Iterator[str]:
    with running_registry(broker.bootstrap_servers) as registry:
        yield registry.url


@pytest.mark.slow
def test_through_a_real_registry(url: str) -> None:
    made = converter(NAME, {"schema.registry.url": url})
    raw = made.from_connect("orders", ORDER, Struct(ORDER, VALUES))
    found = made.to_connect("orders", raw)
    assert isinstance(found.value, Struct)
    assert found.value.get("id") == 5
    assert found.value.get("note") is None
    assert found.value.get("at") == Instant(1500)
    assert found.value.get("tags") == {"x": 1}
    assert found.value.get("first") is None
    (line,) = found.value.get("item_lines")  # type: ignore[misc]
    assert (line.get("sku"), line.get("raw")) == ("a", b"\xff")
    again = made.to_connect("orders", made.from_connect("orders", found.schema, found.value))
    assert again.value == found.value
    other = (
        'syntax = "proto3"; import "google/protobuf/wrappers.proto"; enum Color { RED = 0; BLUE = 1; } '
        "message Car { Color color = 1; uint32 wheels = 2; google.protobuf.StringValue name = 3; "
        "repeated Car inner = 4; }"
    ).replace("repeated Car inner = 4; ", "")
    write = ProtobufSerializer(url, other)
    raw = write.serialize("cars", {"color": "BLUE", "wheels": 4, "name": "x"})
    car = made.to_connect("cars", raw).value
    assert isinstance(car, Struct)
    assert (car.get("color"), car.get("wheels"), car.get("name")) == ("BLUE", 4, "x")
    for bad in (b"", b"\0\0\0\0\1", raw[:5] + b"\0\xff\xff" if raw else b""):
        with pytest.raises(DataException):
            made.to_connect("cars", bad)
