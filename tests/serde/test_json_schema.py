"""The JSON serializers over a real registry: checks with paths, references, classes, headers and failures."""

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Literal
from uuid import UUID

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from moldau.client.registry.schema_registry import Reference
from moldau.serde.errors import SerdeError
from moldau.serde.json_models import json_schema_of
from moldau.serde.json_schema import JsonDeserializer, JsonSerializer, decode_json, encode_json
from moldau.serde.options import ReaderOptions, WriterOptions

ORDER = json.dumps(
    {
        "title": "Order",
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "lines": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        },
        "required": ["id"],
        "additionalProperties": False,
    }
)


class Status(Enum):
    NEW = "new"
    DONE = "done"


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass
class Order:
    id: int
    status: Status
    placed: datetime
    day: date
    at: time
    key: UUID
    price: Decimal
    raw: bytes
    kind: Literal["a", "b"] = "a"
    lines: list[Line] = field(default_factory=list)
    first: Line | None = None
    ratio: float = 1.0
    tags: dict[str, int] = field(default_factory=dict)
    rest: "Order | None" = None


ANN = Order(
    1,
    Status.DONE,
    datetime(2024, 1, 2, 3, 4, 5, 6, UTC),
    date(2024, 2, 29),
    time(1, 2),
    UUID(int=7),
    Decimal("12.340"),
    b"\x00\xff",
    "b",
    [Line("a", 2)],
    Line("b"),
    2.0,
    {"x": 1},
)


class Item(BaseModel):
    sku: str
    count: int = Field(default=1, alias="n")


class Basket(BaseModel):
    owner: str
    since: datetime
    items: list[Item] = []


@pytest.mark.slow
def test_the_frame_and_the_check(registry, topic):
    write, read = JsonSerializer(registry, ORDER), JsonDeserializer(registry)
    data = write.serialize(topic, {"id": 5, "lines": [{"n": 1}]})
    found = registry.version(f"{topic}-value")
    assert data == b"\x00" + found.schema_id.to_bytes(4, "big") + b'{"id":5,"lines":[{"n":1}]}'
    assert found.schema_type == "JSON"
    assert read.deserialize(topic, data) == {"id": 5, "lines": [{"n": 1}]}
    with pytest.raises(SerdeError) as caught:
        write.serialize(topic, {"id": 5, "lines": [{"n": 1}, {"n": "x"}]})
    assert caught.value.path == "lines[1].n"
    assert 'is not of type "integer"' in caught.value.message
    with pytest.raises(SerdeError, match="required"):
        read.deserialize(topic, data[:5] + b"{}")
    with pytest.raises(SerdeError, match="The data is no JSON"):
        read.deserialize(topic, data[:-1])
    loose = JsonDeserializer(registry, options=ReaderOptions(validate=False))
    assert loose.deserialize(topic, data[:5] + b"{}") == {}
    careless = JsonSerializer(registry, ORDER, options=WriterOptions(validate=False))
    assert careless.serialize(topic, {"id": "x"})[5:] == b'{"id":"x"}'


def test_a_reader_of_its_own_and_the_latest(registry, topic):
    data = JsonSerializer(registry, ORDER).serialize(topic, {"id": 5})
    strict = json.dumps({"type": "object", "properties": {"id": {"maximum": 4}}})
    with pytest.raises(SerdeError, match="id: 5 is greater than the maximum of 4"):
        JsonDeserializer(registry, strict).deserialize(topic, data)
    read = JsonDeserializer(registry, options=ReaderOptions(use_latest_version=True))
    assert read.deserialize(topic, data) == {"id": 5}
    write = JsonSerializer(registry, options=WriterOptions(use_latest_version=True))
    assert write.serialize(topic, {"id": 5}) == data
    with pytest.raises(SerdeError, match="No schema is given"):
        JsonSerializer(registry).serialize(topic, {"id": 1})
    registry.register(f"{topic}-2-value", '"string"')
    with pytest.raises(SerdeError, match="is AVRO, not JSON"):
        read.deserialize(f"{topic}-2", data)


def test_headers_and_record_names(registry, topic):
    headers = {}
    options = WriterOptions(schema_id_in="header", subject_name="topic-record")
    data = JsonSerializer(registry, ORDER, options=options).serialize(topic, {"id": 5}, headers)
    assert data == b'{"id":5}'
    assert JsonDeserializer(registry).deserialize(topic, data, headers) == {"id": 5}
    assert registry.versions(f"{topic}-Order") == [1]


@pytest.mark.parametrize("own", [None, "http://example.com/schemas/order.json"])
def test_references(registry, topic, own):
    line = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}})
    order = {"type": "object", "properties": {"line": {"$ref": "line.json"}}} | ({"$id": own} if own else {})
    registry.register(f"{topic}-line", line, "JSON")
    references = [Reference("line.json", f"{topic}-line", 1)]
    write = JsonSerializer(registry, json.dumps(order), references=references)
    data = write.serialize(topic, {"line": {"n": 1}})
    assert JsonDeserializer(registry).deserialize(topic, data) == {"line": {"n": 1}}
    with pytest.raises(SerdeError, match=r"line.n"):
        write.serialize(topic, {"line": {"n": "x"}})


def test_nothing_is_fetched_from_elsewhere(registry, topic):
    schema = json.dumps({"$ref": "http://127.0.0.1:1/x.json"})
    with pytest.raises(SerdeError, match="Retrieval is disabled"):
        JsonDeserializer(registry, schema)


def test_a_dataclass_there_and_back(registry, topic):
    data = JsonSerializer(registry, Order).serialize(topic, ANN)
    assert JsonDeserializer(registry, Order).deserialize(topic, data) == ANN
    plain = JsonDeserializer(registry).deserialize(topic, data)
    assert plain["placed"] == "2024-01-02T03:04:05.000006+00:00"
    assert plain["status"] == "done"
    assert JsonSerializer(registry).serialize(topic, ANN) == data


def test_the_schema_of_a_dataclass_is_one(registry, topic):
    schema = json.loads(json_schema_of(Order))
    jsonschema.Draft7Validator.check_schema(schema)
    assert schema["required"] == ["id", "status", "placed", "day", "at", "key", "price", "raw"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["rest"]["anyOf"][0] == {"$ref": "#/definitions/Order"}
    assert "Order" in schema["definitions"]
    assert list(json.loads(json_schema_of(Line))) == [
        "$schema", "title", "type", "properties", "additionalProperties", "required",
    ]  # fmt: skip


def test_a_class_may_gain_a_field_with_a_default(registry, topic):
    @dataclass
    class Old:
        sku: str

    data = JsonSerializer(registry, Old).serialize(topic, Old("a"))
    JsonSerializer(registry, Line).serialize(topic, Line("b"))
    assert registry.versions(f"{topic}-value") == [1, 2]
    assert JsonDeserializer(registry, Line).deserialize(topic, data) == Line("a", 1)


def test_a_pydantic_model_there_and_back(registry, topic):
    basket = Basket(owner="ann", since=datetime(2024, 1, 1, tzinfo=UTC), items=[Item(sku="a", n=2)])
    data = JsonSerializer(registry, Basket).serialize(topic, basket)
    assert JsonDeserializer(registry, Basket).deserialize(topic, data) == basket
    assert JsonDeserializer(registry).deserialize(topic, data)["items"] == [{"sku": "a", "n": 2}]
    with pytest.raises(SerdeError, match="The data makes no Basket"):
        JsonDeserializer(registry, Basket).deserialize(topic, data[:5] + b"{}")


def test_schemas_that_cannot_be_used(registry):
    with pytest.raises(SerdeError, match="The JSON Schema cannot be used"):
        JsonSerializer(registry, "{")
    with pytest.raises(SerdeError, match="The JSON Schema cannot be used"):
        JsonDeserializer(registry, '{"type": "nonsense"}')


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), object()])
def test_values_that_json_has_not(registry, topic, value):
    with pytest.raises(SerdeError, match=r"nothing that JSON has|cannot be written as JSON"):
        JsonSerializer(registry, "{}").serialize(topic, value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.slow
@given(VALUES)
def test_random_values_go_there_and_back(value):
    try:
        data = encode_json(value)
    except SerdeError:
        assert any(0xD800 <= ord(character) < 0xE000 for character in repr(value))
        return
    assert decode_json(data) == value
