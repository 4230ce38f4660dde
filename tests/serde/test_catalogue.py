"""The documents' cases: catalogue D, SER-1 to SER-11, and catalogue B, S3 to S8, where serializers act."""

import json
import struct
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer, Producer

from moldau.serde import plain
from moldau.serde.avro import AvroDeserializer, AvroSerializer, parse_avro
from moldau.serde.avro_models import avro_schema_of
from moldau.serde.errors import SerdeError
from moldau.serde.json_schema import JsonSerializer
from moldau.serde.plain import PlainSerde

CUSTOMER = {
    "namespace": "customerManagement.avro",
    "type": "record",
    "name": "Customer",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "name", "type": "string"},
        {"name": "faxNumber", "type": ["null", "string"], "default": None},
    ],
}
NEW_CUSTOMER = CUSTOMER | {
    "fields": [*CUSTOMER["fields"][:2], {"name": "email", "type": ["null", "string"], "default": None}]
}
NONE = {"type": "string", "default": "NONE"}
CONTACT = {
    "namespace": "avro.example",
    "type": "record",
    "name": "contactDetails",
    "fields": [
        {"name": "fullname", **NONE},
        {"name": "age", "type": "int", "default": -1},
        {"name": "cell_number", **NONE},
        {
            "name": "address",
            "type": {
                "type": "record",
                "name": "home_address",
                "fields": [{"name": part, **NONE} for part in ("street", "city", "state_prov", "zip")],
            },
            "default": {},
        },
    ],
}
ALERT = {
    "namespace": "com.kafkainaction",
    "type": "record",
    "name": "Alert",
    "fields": [
        {"name": "sensor_id", "type": "long"},
        {"name": "time", "type": "long", "doc": "epoch in seconds"},
        {
            "name": "status",
            "type": {"type": "enum", "name": "alert_status", "symbols": ["Critical", "Major", "Minor"]},
        },
    ],
}


@pytest.mark.parametrize(
    ("serde", "value", "data"),
    [
        (plain.STRING, "Grüße", "Grüße".encode()),
        (plain.BYTES, b"\x00\xff", b"\x00\xff"),
        (plain.SHORT, -2, b"\xff\xfe"),
        (plain.INTEGER, 258, b"\x00\x00\x01\x02"),
        (plain.LONG, 2**40, b"\x00\x00\x01\x00\x00\x00\x00\x00"),
        (plain.FLOAT, 1.5, b"\x3f\xc0\x00\x00"),
        (plain.DOUBLE, 1.5, b"\x3f\xf8\x00\x00\x00\x00\x00\x00"),
        (plain.BOOLEAN, True, b"\x01"),
    ],
)
def test_ser_1_kafkas_own_serializers(serde, value, data):
    assert serde.serialize("t", value) == serde.serializer(value, None) == data
    assert serde.deserialize("t", data) == serde.deserializer(data, None) == value
    assert serde.serialize("t", None) is None
    assert serde.deserialize("t", None) is None


def test_ser_1_a_uuid_and_mismatches():
    import uuid

    assert plain.UUIDS.deserialize("t", plain.UUIDS.serialize("t", uuid.UUID(int=5))) == uuid.UUID(int=5)
    with pytest.raises(SerdeError, match="5 bytes cannot be read as an integer"):
        plain.INTEGER.deserialize("t", plain.STRING.serialize("t", "hello"))
    for serde, value in ((plain.INTEGER, "1"), (plain.INTEGER, 2**31), (plain.LONG, True), (plain.STRING, 5),
                         (plain.BYTES, "x"), (plain.BOOLEAN, 1), (plain.UUIDS, "x")):  # fmt: skip
        with pytest.raises(SerdeError, match="cannot be written as"):
            serde.serialize("t", value)
    with pytest.raises(SerdeError):
        plain.STRING.deserialize("t", b"\xff")
    with pytest.raises(SerdeError):
        plain.BOOLEAN.deserialize("t", b"\x02")


@dataclass
class Customer:
    id: int
    name: str | None


def write_customer(customer):
    name = (customer.name or "").encode()
    return struct.pack(">ii", customer.id, len(name)) + name


def read_customer(data):
    number, size = struct.unpack_from(">ii", data)
    return Customer(number, data[8 : 8 + size].decode())


def test_ser_2_a_serializer_of_ones_own():
    serde = PlainSerde("a customer", write_customer, read_customer)
    assert serde.serialize("t", Customer(1, "Ann")) == bytes.fromhex("00000001 00000003 416e6e")
    assert serde.serialize("t", Customer(1, None)) == bytes.fromhex("0000000100000000")
    assert serde.serialize("t", None) is None
    assert serde.deserialize("t", bytes.fromhex("0000000100000003416e6e")) == Customer(1, "Ann")
    with pytest.raises(SerdeError, match="7 bytes cannot be read as a customer"):
        serde.deserialize("t", b"1234567")


def test_ser_3_which_breaks_when_the_type_changes():
    wider = PlainSerde("a customer", lambda c: struct.pack(">qi", c.id, 0), read_customer)
    assert wider.deserialize("t", wider.serialize("t", Customer(1, ""))) != Customer(1, "")


@pytest.mark.slow
@pytest.mark.parametrize("writer", [CUSTOMER, NEW_CUSTOMER])
@pytest.mark.parametrize("reader", [CUSTOMER, NEW_CUSTOMER])
def test_ser_6_and_11_the_evolution_of_customers(registry, topic, writer, reader):
    added = writer["fields"][2]["name"]
    sent = {"id": 1, "name": "Ann", added: "x"}
    data = AvroSerializer(registry, json.dumps(writer)).serialize(topic, sent)
    found = AvroDeserializer(registry, json.dumps(reader)).deserialize(topic, data)
    wanted = reader["fields"][2]["name"]
    assert found == {"id": 1, "name": "Ann", wanted: "x" if wanted == added else None}


def test_ser_7_a_record_carries_an_id_not_its_schema(registry, topic):
    sent = {"id": 1, "name": "Ann", "faxNumber": None}
    data = AvroSerializer(registry, json.dumps(CUSTOMER)).serialize(topic, sent)
    assert data[:1] == b"\x00"
    assert registry.by_id(int.from_bytes(data[1:5], "big")).schema_type == "AVRO"
    embedded = len(data) - 5 + len(json.dumps(CUSTOMER))
    assert embedded > 2 * len(data)


def test_ser_8_primitives(registry, topic):
    write, read = AvroSerializer(registry, '"string"'), AvroDeserializer(registry)
    assert read.deserialize(topic, write.serialize(topic, "key")) == "key"


@dataclass
class Customers:
    __avro_namespace__ = "customerManagement.avro"

    id: int
    name: str


def test_ser_9_a_class_and_a_dict_give_the_same_bytes(registry, topic):
    by_class = AvroSerializer(registry, Customers).serialize(topic, Customers(1, "Ann"))
    by_dict = AvroSerializer(registry, avro_schema_of(Customers)).serialize(topic, {"id": 1, "name": "Ann"})
    assert by_class == by_dict


def test_ser_10_what_is_incompatible_is_refused_and_nothing_is_written(registry, serde_broker, topic):
    AvroSerializer(registry, json.dumps(CUSTOMER)).serialize(topic, {"id": 1, "name": "Ann"})
    other = CUSTOMER | {"fields": [{"name": "id", "type": "string"}]}
    producer = Producer({"bootstrap.servers": serde_broker.bootstrap_servers})
    with pytest.raises(SerdeError, match="incompatible with an earlier schema"):
        producer.produce(topic, AvroSerializer(registry, json.dumps(other)).serialize(topic, {"id": "x"}))
    assert producer.flush(10) == 0
    assert topic not in producer.list_topics(timeout=10).topics
    assert registry.versions(f"{topic}-value") == [1]


def test_s4_contact_details_are_filled_with_defaults(registry, topic):
    data = AvroSerializer(registry, json.dumps(CONTACT)).serialize(topic, {"fullname": "Ann"})
    found = AvroDeserializer(registry).deserialize(topic, data)
    empty = dict.fromkeys(("street", "city", "state_prov", "zip"), "NONE")
    assert found == {"fullname": "Ann", "age": -1, "cell_number": "NONE", "address": empty}
    with pytest.raises(SerdeError, match=r"address.zip: 12345 \(int\) is no string"):
        AvroSerializer(registry, json.dumps(CONTACT)).serialize(topic, {"address": {"zip": 12345}})


def test_s5_alerts(registry, topic):
    write = AvroSerializer(registry, json.dumps(ALERT))
    sent = {"sensor_id": 12345, "time": 1_700_000_000, "status": "Critical"}
    assert AvroDeserializer(registry).deserialize(topic, write.serialize(topic, sent)) == sent
    with pytest.raises(SerdeError, match=r"status: 'Unknown' \(str\) is no enum"):
        write.serialize(topic, sent | {"status": "Unknown"})


def test_s6_a_class_gives_a_schema():
    assert parse_avro(avro_schema_of(Customers)).name == "customerManagement.avro.Customers"


def test_s7_two_versions_in_one_topic_over_the_broker(registry, serde_broker, topic):
    producer = Producer({"bootstrap.servers": serde_broker.bootstrap_servers})
    for schema, name in ((CUSTOMER, "faxNumber"), (NEW_CUSTOMER, "email")):
        data = AvroSerializer(registry, json.dumps(schema)).serialize(
            topic, {"id": 1, "name": "A", name: "x"}
        )
        producer.produce(topic, data)
    assert producer.flush(10) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": serde_broker.bootstrap_servers,
            "group.id": topic,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    read = AvroDeserializer(registry, json.dumps(NEW_CUSTOMER))
    found = [read.deserialize(topic, consumer.poll(20).value())["email"] for _ in range(2)]
    consumer.close()
    assert found == [None, "x"]
    assert registry.versions(f"{topic}-value") == [1, 2]


@pytest.mark.slow
def test_s8_those_who_do_not_agree_hear_so(registry, topic):
    data = JsonSerializer(registry, '{"type": "object"}').serialize(topic, {})
    with pytest.raises(SerdeError, match=r"of type JSON .* read it with the deserializer of that type"):
        AvroDeserializer(registry).deserialize(topic, data)
    with pytest.raises(SerdeError, match="written by another serializer"):
        AvroDeserializer(registry).deserialize(topic, plain.STRING.serialize(topic, "text"))
