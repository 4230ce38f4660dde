"""Typed topics without Spark: a real broker, a real registry, values of confluent-kafka's own serializers."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from moldau.client.registry.schema_registry import Reference, RegistryClient, RegistryError
from moldau.schemas.protobuf.descriptors import message_class
from moldau.spark.options import OptionError
from moldau.spark.read.columns import HEADERS_TYPE
from moldau.spark.topic_frames import Topic, topic
from moldau.spark.typed.columns import DecodeError
from moldau.spark.typed.protobuf.schema import message_descriptor
from moldau.spark.typed.registry import SchemaText
from moldau.testing import Broker

ORDER_1 = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "int"}, {"name": "customer", "type": "string"}],
    }
)
ORDER_2 = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "customer", "type": "string"},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)

_numbers = count()


class Place:
    """A topic of its own, and a way to write into it."""

    def __init__(self, broker: Broker, registry: str) -> None:
        self.name = f"orders-{next(_numbers)}"
        self.registry = registry
        self.broker = broker
        self.client = SchemaRegistryClient({"url": registry})
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        broker.create_topic(self.name)

    def avro(self, schema: str, value: Any, key: bytes | None = None) -> None:
        serialize = AvroSerializer(self.client, schema)
        self.raw(serialize(value, SerializationContext(self.name, MessageField.VALUE)), key)

    def raw(self, value: bytes | None, key: bytes | None = None, **more: Any) -> None:
        self._producer.produce(self.name, value, key, **more)
        assert self._producer.flush(20) == 0

    def topic(self, **options: object) -> Topic:
        made = topic(self.name, self.broker.bootstrap_servers)
        made = made.option("schema.registry.url", self.registry)
        for name, said in options.items():
            made = made.option(name.replace("_", "."), said)
        return made


@pytest.fixture
def place(broker: Broker, registry: str) -> Callable[[], Place]:
    return lambda: Place(broker, registry)


def test_the_registry_says_what_values_are(place: Callable[[], Place]) -> None:
    orders = place()
    orders.avro(ORDER_1, {"id": 1, "customer": "ann"}, b"k1")
    orders.avro(ORDER_2, {"id": 2**40, "customer": "bob", "note": "quick"})
    orders.raw(None, b"k1")
    table = orders.topic().arrow()
    assert table.column("value").to_pylist() == [
        {"id": 1, "customer": "ann", "note": None},
        {"id": 2**40, "customer": "bob", "note": "quick"},
        None,
    ]
    assert table.column("key").to_pylist() == [b"k1", None, b"k1"]
    first = orders.topic(flatten=True, key_format="string").arrow()
    assert first.column_names == [
        "id",
        "customer",
        "note",
        "_key",
        "_topic",
        "_partition",
        "_offset",
        "_timestamp",
    ]
    assert str(first.schema.field("_key").type) == "string"


def test_a_version_that_what_was_written_does_not_fit(place: Callable[[], Place]) -> None:
    orders = place()
    orders.avro(ORDER_1, {"id": 1, "customer": "ann"})
    orders.avro(ORDER_2, {"id": 2, "customer": "bob", "note": None})
    with pytest.raises(DecodeError) as failed:
        orders.topic(value_schema_version=1).arrow()
    assert f"{orders.name}, partition 0, offset 1: the record cannot be read as avro" in str(failed.value)
    assert "field id: long was written and cannot be read as int" in str(failed.value)


def test_bad_records_as_nulls_with_their_reason(place: Callable[[], Place]) -> None:
    orders = place()
    orders.avro(ORDER_1, {"id": 1, "customer": "ann"})
    orders.raw(b"hello there")
    orders.raw(b"\x00\x00\x0f\xff\xff123")
    orders.raw(b"\x00")
    table = orders.topic(decode_errors="null").arrow()
    assert [row is None for row in table.column("value").to_pylist()] == [False, True, True, True]
    reasons = table.column("_error").to_pylist()
    assert reasons[0] is None
    assert reasons[1] == "value: it begins with byte 104, not with the 0 that stands before a schema id"
    assert "schema id 1048575 is not in the registry" in reasons[2]
    assert reasons[3] == "value: 1 bytes are too few for a schema id"
    flat = orders.topic(decode_errors="null", error_column="why", flatten=True).arrow()
    assert flat.column_names[-1] == "why"
    assert flat.column("id").to_pylist() == [1, None, None, None]


def test_bad_records_as_dead_letters(place: Callable[[], Place]) -> None:
    orders = place()
    orders.broker.create_topic(f"{orders.name}.dead-letter")
    orders.avro(ORDER_1, {"id": 1, "customer": "ann"})
    orders.raw(b"hello there", b"k", headers={"trace": b"7"}, timestamp=1000)
    table = orders.topic(decode_errors="dead-letter").arrow()
    assert [row["id"] for row in table.column("value").to_pylist()] == [1]
    dead = topic(f"{orders.name}.dead-letter", orders.broker.bootstrap_servers, includeHeaders=True).arrow()
    (row,) = dead.to_pylist()
    assert (row["key"], row["value"]) == (b"k", b"hello there")
    assert row["timestamp"].timestamp() == 1.0
    assert dead.schema.field("headers").type == HEADERS_TYPE
    headers = {pair["key"]: pair["value"] for pair in row["headers"]}
    assert headers == {
        "trace": b"7",
        "moldau.error": b"value: it begins with byte 104, not with the 0 that stands before a schema id",
        "moldau.topic": orders.name.encode(),
        "moldau.partition": b"0",
        "moldau.offset": b"1",
    }


def test_text_keys_and_values(place: Callable[[], Place]) -> None:
    orders = place()
    orders.raw("grüße".encode(), b"k")
    orders.raw(b"\xff\xfe")
    plain = topic(orders.name, orders.broker.bootstrap_servers).option("value.format", "string")
    table = plain.option("decode.errors", "null").arrow()
    assert table.column("value").to_pylist() == ["grüße", None]
    assert table.column("_error").to_pylist() == [
        None,
        "value: it is not UTF-8: invalid start byte at byte 0",
    ]


def test_an_inline_schema_without_a_registry(place: Callable[[], Place]) -> None:
    orders = place()
    orders.raw(b"\x02\x06ann")
    orders.avro(ORDER_1, {"id": 2, "customer": "bob"})
    plain = topic(orders.name, orders.broker.bootstrap_servers)
    table = plain.option("value.format", "avro").option("value.schema", ORDER_1).arrow()
    assert [row["customer"] for row in table.column("value").to_pylist()] == ["ann", "bob"]


def test_json_of_confluents_serializer(place: Callable[[], Place]) -> None:
    orders = place()
    schema = {
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "when": {"type": "string", "format": "date-time"}},
    }
    serialize = JSONSerializer(json.dumps(schema), orders.client)
    context = SerializationContext(orders.name, MessageField.VALUE)
    orders.raw(serialize({"id": 1, "when": "2026-01-01T00:00:00Z"}, context))
    orders.raw(b'{"id": 2}')
    (first, second) = orders.topic(flatten=True).arrow().to_pylist()
    assert (first["id"], first["when"]) == (1, datetime(2026, 1, 1, tzinfo=UTC))
    assert (second["id"], second["when"]) == (2, None)


def test_protobuf_of_confluents_serializer(place: Callable[[], Place]) -> None:
    orders = place()
    text = 'syntax = "proto3"; package shop; message First { int32 a = 1; } message Order { int64 id = 1; }'
    schema = SchemaText(text)
    pool_class = message_class(message_descriptor(schema, "Order"))
    serialize = ProtobufSerializer(pool_class, orders.client, {"use.deprecated.format": False})
    context = SerializationContext(orders.name, MessageField.VALUE)
    orders.raw(serialize(pool_class(id=2**40), context))
    found = orders.topic(value_message="Order", decode_errors="null").arrow()
    assert found.column("value").to_pylist() == [{"id": 2**40}]
    wrong = orders.topic(decode_errors="null").arrow()
    assert wrong.column("_error").to_pylist() == ["value: it is a shop.Order, and shop.First is to be read"]


def test_the_table_of_a_time(place: Callable[[], Place]) -> None:
    orders = place()
    for timestamp, key, value in [(1000, b"a", 1), (2000, b"b", 2), (3000, b"a", 3), (4000, b"b", None)]:
        serialize = AvroSerializer(orders.client, ORDER_1)
        context = SerializationContext(orders.name, MessageField.VALUE)
        data = None if value is None else serialize({"id": value, "customer": "x"}, context)
        orders.raw(data, key, timestamp=timestamp)
    orders.raw(b"no key", timestamp=5000)
    typed = orders.topic(flatten=True)

    def ids(time: object) -> list[tuple[bytes, int]]:
        rows = typed.as_of(time).arrow().to_pylist()  # type: ignore[arg-type]
        return [(row["_key"], row["id"]) for row in rows]

    assert ids(2500) == [(b"a", 1), (b"b", 2)]
    assert ids(datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC)) == [(b"b", 2), (b"a", 3)]
    assert ids("2030-01-01") == [(b"a", 3)]
    plain = topic(orders.name, orders.broker.bootstrap_servers).as_of(1000).pandas()
    assert list(plain["offset"]) == [0]
    assert f"topic {orders.name}" in typed.as_of(2500)._repr_html_()


def test_what_a_notebook_shows(place: Callable[[], Place]) -> None:
    orders = place()
    orders.avro(ORDER_1, {"id": 1, "customer": "ann"})
    for _ in range(12):
        orders.raw(b"<junk>")
    # Looking at a topic sends no dead letters, and shows why rows are empty.
    shown = orders.topic(decode_errors="dead-letter", dead_letter_topic="nowhere")._repr_html_()
    assert shown.count("it begins with byte 60") == 10
    assert "does not exist" in topic("nowhere", orders.broker.bootstrap_servers)._repr_html_()


def test_references_of_schemas(place: Callable[[], Place]) -> None:
    orders = place()
    money = '{"type":"record","name":"shop.Money","fields":[{"name":"cents","type":"long"}]}'
    order = '{"type":"record","name":"shop.Order","fields":[{"name":"price","type":"shop.Money"}]}'
    subject = f"{orders.name}-money"
    orders.client.register_schema(subject, Schema(money, "AVRO"))
    with RegistryClient(orders.registry) as client:
        refers = [Reference("shop.Money", subject, 1)]
        schema_id = client.register(f"{orders.name}-value", order, "AVRO", refers)
    orders.raw(b"\x00" + schema_id.to_bytes(4) + b"\xc8\x01")
    assert orders.topic().arrow().column("value").to_pylist() == [{"price": {"cents": 100}}]


def test_what_is_wrong_is_told_in_one_sentence(place: Callable[[], Place]) -> None:
    orders = place()
    with pytest.raises(OptionError, match=r"has no version of the subject 'orders-.*-value': name the right"):
        orders.topic().arrow()
    with pytest.raises(RegistryError, match=r"http://127.0.0.1:1 cannot be reached"):
        orders.topic().option("schema.registry.url", "http://127.0.0.1:1").arrow()
    orders.client.register_schema(f"{orders.name}-value", Schema(ORDER_1, "AVRO"))
    with pytest.raises(OptionError, match=r"holds AVRO schemas, not what value.format=json says"):
        orders.topic(value_format="json").arrow()
    with pytest.raises(OptionError, match="no version 9 of the subject"):
        orders.topic(value_schema_version=9).arrow()
    recursive = '{"type":"record","name":"N","fields":[{"name":"next","type":["null","N"]}]}'
    with pytest.raises(OptionError, match="schema of values cannot be used: the Avro type N holds itself"):
        orders.topic(value_format="avro", value_schema=recursive).arrow()
    clash = '{"type":"record","name":"N","fields":[{"name":"_key","type":"int"}]}'
    with pytest.raises(OptionError, match="two columns _key"):
        orders.topic(value_format="avro", value_schema=clash, flatten=True).arrow()


def test_names_as_python_writes_them() -> None:
    named = topic(
        "t", "localhost:1", schema_registry_url="u", value_format="json", starting_offsets="earliest"
    )
    assert named.options == {
        "schema.registry.url": "u",
        "value.format": "json",
        "startingOffsets": "earliest",
    }
    with pytest.raises(OptionError, match=r"'value\.formt' is not known: did you mean 'value\.format'"):
        topic("t", "localhost:1", value_formt="json").arrow()


def test_a_schema_that_is_inferred_from_the_newest_records(
    broker: Broker, registry: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(broker, registry)
    inferred = topic(
        place.name, broker.bootstrap_servers, value_format="json", value_schema="infer", flatten=True
    )
    with pytest.raises(OptionError, match=r"no records to look at yet; set value\.schema"):
        inferred.arrow()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in (b'{"id": 1, "price": 2}', b'\0\0\0\0\7{"id": 2, "price": 2.5, "tags": ["a"]}', None):
        producer.produce(place.name, value)
    assert producer.flush(20) == 0
    found = inferred.arrow().select(["id", "price", "tags"]).to_pylist()
    assert found == [
        {"id": 1, "price": 2.0, "tags": None},
        {"id": 2, "price": 2.5, "tags": ["a"]},
        {"id": None, "price": None, "tags": None},
    ]
    assert "by the newest 2 records it is 'id BIGINT, price DOUBLE, tags ARRAY<STRING>'" in caplog.text
    settled = inferred._settled()["value.schema"]
    assert settled == "infer: id BIGINT, price DOUBLE, tags ARRAY<STRING>"
    assert inferred.option("value.schema", settled).arrow().num_rows == 3


def test_records_that_are_no_json_say_nothing(broker: Broker, registry: str) -> None:
    place = Place(broker, registry)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(place.name, b"plain text")
    assert producer.flush(20) == 0
    with pytest.raises(OptionError, match="none of the records that were looked at is JSON"):
        topic(place.name, broker.bootstrap_servers, value_format="json", value_schema="infer").arrow()
