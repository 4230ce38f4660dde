"""The Avro serializers over a real registry: subjects, ids, options, headers, classes and failures."""

import dataclasses
import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated
from uuid import UUID

import httpx
import pytest
from confluent_kafka.serialization import MessageField, SerializationContext
from pydantic import BaseModel, Field

from moldau.client.registry.schema_registry import Reference, RegistryClient
from moldau.serde.avro import AvroDeserializer, AvroSerializer
from moldau.serde.avro_models import AvroField, avro_schema_of
from moldau.serde.errors import SerdeError
from moldau.serde.options import ReaderOptions, WriterOptions

ORDER = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"}]}'
ORDER_2 = (
    '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},'
    '{"name":"note","type":["null","string"],"default":null}]}'
)


class Status(Enum):
    NEW = 1
    DONE = 2


@dataclass
class Line:
    sku: str
    quantity: Annotated[int, AvroField("int", aliases=("qty",), doc="how many")] = 1


@dataclass
class Order:
    """An order."""

    __avro_namespace__ = "shop"

    id: int
    status: Status
    placed: datetime
    day: date
    key: UUID
    price: Annotated[
        Decimal, AvroField({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})
    ]
    lines: list[Line] = field(default_factory=list)
    first: Line | None = None
    gift: "Card | Line | None" = None
    tags: dict[str, str] = field(default_factory=dict)
    pair: tuple[int, ...] = (1, 2)
    weight: float | None = 0.5
    rest: "Order | None" = None
    secret: bytes = b"\xff"


@dataclass
class Card:
    sku: str


ANN = Order(
    1,
    Status.DONE,
    datetime(2024, 1, 2, 3, 4, 5, 6, UTC),
    date(2024, 2, 29),
    UUID(int=7),
    Decimal("12.34"),
    [Line("a", 2), Line("b")],
    Line("f"),
    Card("c"),
    {"x": "y"},
    (3,),
    None,
)


class Item(BaseModel):
    sku: str
    count: int = Field(default=1, alias="n")


class Basket(BaseModel):
    owner: str
    status: Status = Status.NEW
    items: list[Item] = []
    first: Item | None = None


@pytest.mark.slow
def test_the_frame_and_the_subject_of_a_topic(registry, topic):
    write, read = AvroSerializer(registry, ORDER), AvroDeserializer(registry)
    data = write.serialize(topic, {"id": 5})
    found = registry.version(f"{topic}-value")
    assert data == b"\x00" + found.schema_id.to_bytes(4, "big") + b"\x0a"
    assert (found.text, found.schema_type) == (ORDER, "AVRO")
    assert read.deserialize(topic, data) == {"id": 5}
    assert read.deserialize(topic, bytearray(data)) == {"id": 5}
    assert write.for_topic(topic)({"id": 5}) == data
    assert read.for_topic(topic)(data) == {"id": 5}
    key = SerializationContext(topic, MessageField.KEY)
    assert write({"id": 5}, key) == data
    assert registry.subjects(f"{topic}-key") == [f"{topic}-key"]
    assert write.serialize(topic, None) is None
    assert write(None, key) is None
    assert read.deserialize(topic, None) is None
    assert read(None, key) is None


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("topic", "{topic}-value"),
        ("record", "shop.{topic}"),
        ("topic-record", "{topic}-shop.{topic}"),
        (lambda topic, is_key, record: f"{topic}/{is_key}/{record}", "{topic}/False/shop.{topic}"),
    ],
)
def test_subject_name_strategies(registry, strategy, subject):
    topic = f"strategy_{id(strategy)}"
    schema = ORDER.replace('"Order"', f'"{topic}"')
    write = AvroSerializer(registry, schema, options=WriterOptions(subject_name=strategy))
    write.serialize(topic, {"id": 1})
    assert registry.versions(subject.format(topic=topic)) == [1]


def test_a_strategy_that_does_not_exist():
    with pytest.raises(ValueError, match="there is no subject name strategy 'topics'"):
        WriterOptions(subject_name="topics")


def test_records_by_name_need_no_topic(registry):
    write = AvroSerializer(registry, ORDER, options=WriterOptions(subject_name="record"))
    assert AvroDeserializer(registry)(write({"id": 1})) == {"id": 1}
    with pytest.raises(SerdeError, match="no topic is given"):
        AvroSerializer(registry, ORDER)({"id": 1})
    with pytest.raises(SerdeError, match="the schema has none"):
        AvroSerializer(registry, '["int","string"]', options=WriterOptions(subject_name="record"))(1)


def test_without_registering_the_schema_has_to_be_there(registry, topic):
    options = WriterOptions(auto_register=False, normalize=True)
    write = AvroSerializer(registry, ORDER, options=options)
    with pytest.raises(SerdeError, match=f"not registered under the subject '{topic}-value': Subject"):
        write.serialize(topic, {"id": 1})
    assert registry.subjects(topic) == []
    made = registry.register(f"{topic}-value", json.dumps(json.loads(ORDER), indent=2))
    assert write.serialize(topic, {"id": 1})[1:5] == made.to_bytes(4, "big")


def test_the_latest_version(registry, topic):
    registry.register(f"{topic}-value", ORDER)
    made = registry.register(f"{topic}-value", ORDER_2)
    write = AvroSerializer(registry, options=WriterOptions(use_latest_version=True))
    data = write.serialize(topic, {"id": 1, "note": "x"})
    assert data[1:5] == made.to_bytes(4, "big")
    old = AvroSerializer(registry, ORDER).serialize(topic, {"id": 2})
    read = AvroDeserializer(registry, options=ReaderOptions(use_latest_version=True))
    assert read.deserialize(topic, old) == {"id": 2, "note": None}
    with pytest.raises(SerdeError, match="No schema is given"):
        AvroSerializer(registry).serialize(topic, {"id": 1})


def test_the_id_in_a_header(registry, topic):
    write = AvroSerializer(registry, ORDER, options=WriterOptions(schema_id_in="header"))
    read, headers = AvroDeserializer(registry), [("other", b"x")]
    data = write.serialize(topic, {"id": 1}, headers)
    assert data == b"\x02"
    assert [name for name, _ in headers] == ["other", "__value_schema_id"]
    assert headers[1][1][:1] == b"\x01"
    assert len(headers[1][1]) == 17
    assert read.deserialize(topic, data, headers) == {"id": 1}
    assert read.deserialize(topic, data, dict(headers)) == {"id": 1}
    with pytest.raises(SerdeError, match=r"pass headers=\[\]"):
        write.serialize(topic, {"id": 1})
    with pytest.raises(SerdeError, match="begins with the byte 2"):
        read.deserialize(topic, data, [("other", b"x")])
    prefixed = AvroSerializer(registry, ORDER).serialize(topic, {"id": 2})
    for _ in range(2):
        assert read.deserialize(topic, prefixed, [("other", b"x")]) == {"id": 2}


def test_a_guid_before_the_payload(registry, topic):
    registry.register(f"{topic}-value", ORDER)
    guid = registry.version(f"{topic}-value").guid
    data = b"\x01" + UUID(guid).bytes + b"\x0a"
    assert AvroDeserializer(registry).deserialize(topic, data) == {"id": 5}


def test_references(registry, topic):
    address = '{"type":"record","name":"Address","fields":[{"name":"street","type":"string"}]}'
    person = (
        '{"type":"record","name":"Person","fields":[{"name":"home","type":"Address"},'
        '{"name":"work","type":["null","Address"],"default":null}]}'
    )
    registry.register(f"{topic}-address", address)
    references = [Reference("Address", f"{topic}-address", 1)]
    write = AvroSerializer(registry, person, references=references)
    value = {"home": {"street": "a"}, "work": {"street": "b"}}
    assert AvroDeserializer(registry).deserialize(topic, write.serialize(topic, value)) == value
    read = AvroDeserializer(registry, person, references=references)
    assert read.deserialize(topic, write.serialize(topic, value)) == value
    with pytest.raises(SerdeError, match="'Address' that is referred to cannot be had"):
        AvroSerializer(registry, person, references=[Reference("Address", "nowhere", 1)])


def test_contexts(registry, topic):
    def name(topic, is_key, record):
        return f":.eu:{topic}-value"

    registry.register(f"{topic}-value", '"string"')
    write = AvroSerializer(registry, ORDER, options=WriterOptions(subject_name=name))
    data = write.serialize(topic, {"id": 3})
    assert data[:5] == b"\x00\x00\x00\x00\x01"
    read = AvroDeserializer(registry, options=ReaderOptions(subject_name=name))
    assert read.deserialize(topic, data) == {"id": 3}


def test_functions_to_and_from_dicts(registry, topic):
    write = AvroSerializer(registry, ORDER, to_dict=lambda number: {"id": number})
    read = AvroDeserializer(registry, from_dict=lambda value: value["id"])
    assert read.deserialize(topic, write.serialize(topic, 9)) == 9


def test_a_dataclass_there_and_back(registry, topic):
    data = AvroSerializer(registry, Order).serialize(topic, ANN)
    assert AvroDeserializer(registry, Order).deserialize(topic, data) == ANN
    nested = dataclasses.replace(ANN, rest=dataclasses.replace(ANN, id=2, gift=Line("g", 5), first=None))
    data = AvroSerializer(registry).serialize(topic, nested)
    assert AvroDeserializer(registry, Order).deserialize(topic, data) == nested
    plain = AvroDeserializer(registry).deserialize(topic, data)
    assert plain["rest"]["gift"] == {"sku": "g", "quantity": 5}
    assert plain["status"] == "DONE"


def test_the_schema_of_a_dataclass():
    schema = json.loads(avro_schema_of(Order))
    assert (schema["name"], schema["namespace"], schema["doc"]) == ("Order", "shop", "An order.")
    fields = {each["name"]: each for each in schema["fields"]}
    assert fields["status"]["type"] == {"type": "enum", "name": "Status", "symbols": ["NEW", "DONE"]}
    assert fields["lines"]["type"]["items"]["fields"][1] == {
        "name": "quantity", "type": "int", "default": 1, "aliases": ["qty"], "doc": "how many",
    }  # fmt: skip
    assert fields["first"] == {"name": "first", "type": ["null", "Line"], "default": None}
    assert fields["weight"] == {"name": "weight", "type": ["double", "null"], "default": 0.5}
    assert fields["pair"] == {"name": "pair", "type": {"type": "array", "items": "long"}, "default": [1, 2]}
    assert fields["rest"]["type"] == ["null", "shop.Order"]
    assert fields["secret"]["default"] == "\u00ff"
    assert "default" not in fields["id"]


def test_an_old_record_becomes_the_new_class(registry, topic):
    fields = [{"name": "sku", "type": "string"}, {"name": "gone", "type": "int"}]
    old = json.dumps({"type": "record", "name": "Line", "fields": fields})
    data = AvroSerializer(registry, old).serialize(topic, {"sku": "a", "gone": 1})
    assert AvroDeserializer(registry, Line).deserialize(topic, data) == Line("a", 1)


def test_a_pydantic_model_there_and_back(registry, topic):
    basket = Basket(owner="ann", items=[Item(sku="a", n=2)], first=Item(sku="b"))
    data = AvroSerializer(registry, Basket).serialize(topic, basket)
    found = AvroDeserializer(registry, Basket).deserialize(topic, data)
    assert found == basket
    assert isinstance(found.items[0], Item)
    plain = AvroDeserializer(registry).deserialize(topic, data)
    assert plain == {
        "owner": "ann",
        "status": "NEW",
        "items": [{"sku": "a", "count": 2}],
        "first": {"sku": "b", "count": 1},
    }


@dataclass
class Wrong:
    price: Decimal


@dataclass
class Wrong2:
    inner: list[set[complex]]


@pytest.mark.parametrize(
    ("cls", "path", "said"), [(Wrong, "Wrong.price", "precision"), (Wrong2, "Wrong2.inner", "complex")]
)
def test_types_without_a_counterpart(cls, path, said):
    with pytest.raises(SerdeError) as caught:
        avro_schema_of(cls)
    assert caught.value.path == path
    assert said in caught.value.message


def test_a_field_of_the_wrong_type_in_a_dataclass_has_its_path(registry, topic):
    write = AvroSerializer(registry, Order)
    with pytest.raises(SerdeError) as caught:
        write.serialize(topic, dataclasses.replace(ANN, lines=[Line("a", "many")]))
    assert caught.value.path == "lines[0].quantity"


def test_failures(registry, topic, url):
    read = AvroDeserializer(registry)
    with pytest.raises(
        SerdeError, match=r"The schema with the id 99999 cannot be had: Schema 99999 not found"
    ):
        read.deserialize(topic, b"\x00\x00\x01\x86\x9f\x02")
    with pytest.raises(SerdeError, match="written by another serializer"):
        read.deserialize(topic, b"plain text")
    with pytest.raises(SerdeError, match="are no bytes"):
        read.deserialize(topic, "text")
    data = AvroSerializer(url, ORDER).serialize(topic, {"id": 300})
    with pytest.raises(SerdeError, match="ends too early"):
        read.deserialize(topic, data[:-1])
    made = registry.register(f"{topic}-json", '{"type": "object"}', "JSON")
    with pytest.raises(SerdeError, match=r"of type JSON \(id \d+\), not AVRO"):
        read.deserialize(topic, b"\x00" + made.to_bytes(4, "big") + b"{}")
    with pytest.raises(SerdeError, match="cannot be registered under the subject"):
        AvroSerializer(registry, ORDER.replace("long", "string")).serialize(topic, {"id": "x"})
    assert registry.versions(f"{topic}-value") == [1]
    gone = RegistryClient("http://127.0.0.1:1")
    with pytest.raises(SerdeError, match=r"registry at http://127.0.0.1:1 cannot be reached"):
        AvroSerializer(gone, ORDER).serialize(topic, {"id": 1})
    with pytest.raises(SerdeError, match="cannot be reached"):
        AvroDeserializer(gone).deserialize(topic, data)


@pytest.mark.slow
def test_records_of_a_schema_that_could_not_be_registered_today_are_read(registry, topic, url):
    """Another registry took it once: its default is no number, and its namespace has a dash."""
    text = json.dumps(
        {
            "type": "record",
            "name": "Old",
            "namespace": "a-b",
            "fields": [{"name": "id", "type": "long", "default": "none"}],
        }
    )
    with httpx.Client(base_url=url, trust_env=False) as http:
        assert http.put(f"/mode/{topic}-value", json={"mode": "IMPORT"}).status_code == 200
        given = {"schema": text, "id": 4321, "version": 1}
        assert http.post(f"/subjects/{topic}-value/versions", json=given).status_code == 200
    data = b"\0" + (4321).to_bytes(4, "big") + b"\x0e"
    assert AvroDeserializer(registry).deserialize(topic, data) == {"id": 7}
