"""Both ways with confluent-kafka's own serializers, and inside its producer and consumer."""

import json

import pytest
from confluent_kafka import DeserializingConsumer, SerializingProducer
from confluent_kafka.error import ValueDeserializationError, ValueSerializationError
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
    record_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer as TheirAvroDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as TheirAvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer as TheirProtobufDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer as TheirProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from moldau.client.registry.schema_registry import Reference
from moldau.serde.avro import AvroDeserializer, AvroSerializer
from moldau.serde.errors import SerdeError
from moldau.serde.json_schema import JsonDeserializer, JsonSerializer
from moldau.serde.options import WriterOptions
from moldau.serde.protobuf import ProtobufDeserializer, ProtobufSerializer
from tests.serde.messages import classes

pytestmark = pytest.mark.slow

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "any", "type": ["null", "int", "string", {"type": "array", "items": "double"}]},
            {"name": "tags", "type": {"type": "map", "values": "bytes"}},
        ],
    }
)
JSON_ORDER = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}})
MADE = classes("ti/")
Order, Line = MADE["Order"], MADE["Line"]


def value(any_):
    from datetime import UTC, datetime

    return {"id": 2**40, "at": datetime(2024, 1, 2, 3, 4, 5, 6000, UTC), "any": any_, "tags": {"k": b"\x00"}}


def context(topic, headers=None):
    return SerializationContext(topic, MessageField.VALUE, headers)


@pytest.mark.parametrize("any_", [None, 5, "x", [1.5, 2.5]])
def test_avro(registry, confluent, topic, any_):
    theirs = TheirAvroSerializer(confluent, ORDER)(value(any_), context(topic))
    ours = AvroSerializer(registry, ORDER)(value(any_), context(topic))
    assert ours == theirs
    assert AvroDeserializer(registry)(theirs, context(topic)) == value(any_)
    assert TheirAvroDeserializer(confluent)(ours, context(topic)) == value(any_)


@pytest.mark.parametrize(
    ("schema", "sent"), [('"string"', "text"), ('"bytes"', b"raw bytes"), ('"long"', 300)]
)
def test_avro_without_records(registry, confluent, topic, schema, sent):
    theirs = TheirAvroSerializer(confluent, schema)(sent, context(topic))
    ours = AvroSerializer(registry, schema)(sent, context(topic))
    assert ours[5:] == theirs[5:]
    assert AvroDeserializer(registry)(theirs, context(topic)) == sent
    assert TheirAvroDeserializer(confluent)(ours, context(topic)) == sent


def test_avro_with_references_names_and_headers(registry, confluent, topic):
    inner = '{"type":"record","name":"Inner","namespace":"a","fields":[{"name":"x","type":"string"}]}'
    outer = '{"type":"record","name":"Outer","namespace":"a","fields":[{"name":"i","type":"a.Inner"}]}'
    registry.register(f"{topic}-inner", inner)
    ours = AvroSerializer(
        registry,
        outer,
        references=[Reference("a.Inner", f"{topic}-inner", 1)],
        options=WriterOptions(subject_name="record", schema_id_in="header"),
    )
    theirs = TheirAvroSerializer(
        confluent,
        Schema(outer, "AVRO", [SchemaReference("a.Inner", f"{topic}-inner", 1)]),
        conf={
            "subject.name.strategy": record_subject_name_strategy,
            "schema.id.serializer": header_schema_id_serializer,
        },
    )
    mine, other = [], []
    sent = {"i": {"x": "some text"}}  # their deserializer wants six bytes, with a header too
    data = ours(sent, context(topic, mine))
    assert data == theirs(sent, context(topic, other)) == b"\x12some text"
    assert mine == other
    assert AvroDeserializer(registry)(data, context(topic, other)) == sent
    assert TheirAvroDeserializer(confluent)(data, context(topic, mine)) == sent
    assert registry.versions("a.Outer") == [1]


def test_json(registry, confluent, topic):
    theirs = JSONSerializer(JSON_ORDER, confluent)({"id": 7}, context(topic))
    ours = JsonSerializer(registry, JSON_ORDER)({"id": 7}, context(topic))
    assert ours[:5] == theirs[:5]
    assert JsonDeserializer(registry)(theirs, context(topic)) == {"id": 7}
    assert JSONDeserializer(None, schema_registry_client=confluent)(ours, context(topic)) == {"id": 7}


@pytest.mark.parametrize("name", ["Order", "Line", "Other"])
def test_protobuf(registry, confluent, url, topic, name):
    cls = MADE[name]
    sent = {"Order": Order(id=5, lines=[Line(sku="a")], far={"x": 1}), "Line": Line(sku="b")}.get(name, cls())
    theirs = TheirProtobufSerializer(cls, confluent)(sent, context(topic))
    ours = ProtobufSerializer(registry, cls)(sent, context(topic))
    assert ours == theirs
    assert ProtobufDeserializer(registry, cls)(theirs, context(topic)) == sent
    dynamic = ProtobufDeserializer(registry)(theirs, context(topic))
    assert dynamic.SerializeToString() == sent.SerializeToString()
    # With the client of their serializer, which remembers what the registry answered, and with its own.
    for client in (confluent, SchemaRegistryClient({"url": url})):
        assert TheirProtobufDeserializer(cls, schema_registry_client=client)(ours, context(topic)) == sent


def test_inside_confluents_clients(registry, serde_broker, topic):
    producer = SerializingProducer(
        {
            "bootstrap.servers": serde_broker.bootstrap_servers,
            "key.serializer": AvroSerializer(registry, '"string"'),
            "value.serializer": AvroSerializer(registry, ORDER, options=WriterOptions(schema_id_in="header")),
        }
    )
    producer.produce(topic, key="k", value=value(5), headers=[("trace", b"1")])
    producer.produce(topic, key="k", value=None)
    with pytest.raises(ValueSerializationError) as caught:
        producer.produce(topic, value=value(1.5), headers=[])
    assert isinstance(caught.value.exception, SerdeError)
    assert producer.flush(20) == 0
    consumer = DeserializingConsumer(
        {
            "bootstrap.servers": serde_broker.bootstrap_servers,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "key.deserializer": AvroDeserializer(registry),
            "value.deserializer": AvroDeserializer(registry),
        }
    )
    consumer.subscribe([topic])
    first, second = consumer.poll(20), consumer.poll(20)
    assert (first.key(), first.value()) == ("k", value(5))
    assert (second.key(), second.value()) == ("k", None)
    serde_broker_produce(serde_broker, topic)
    with pytest.raises(ValueDeserializationError):
        consumer.poll(20)
    consumer.close()
    assert registry.subjects(topic) == [f"{topic}-key", f"{topic}-value"]


def serde_broker_produce(broker, topic):
    producer = SerializingProducer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, value=b"plain")
    assert producer.flush(20) == 0
