"""Records in each format, between the proxy and Confluent's own client, in both directions."""

import json

import pytest
from confluent_kafka import DeserializingConsumer, SerializingProducer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from google.protobuf.timestamp_pb2 import Timestamp

pytestmark = pytest.mark.slow

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"]},
            {"name": "data", "type": "bytes"},
        ],
    }
)
JSON_SCHEMA = json.dumps(
    {
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}},
        "required": ["id"],
        "additionalProperties": False,
    }
)
PROTOBUF = 'syntax = "proto3"; message Order { int64 id = 1; string note = 2; }'


def media(form):
    return {"Content-Type": f"application/vnd.kafka.{form}.v2+json"}


def consume(broker, deserializer, topic="t"):
    consumer = DeserializingConsumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "theirs",
            "auto.offset.reset": "earliest",
            "value.deserializer": deserializer,
        }
    )
    consumer.subscribe([topic])
    message = consumer.poll(60)
    assert message is not None
    assert message.error() is None
    found = message.value()
    consumer.close()
    return found


def produce(broker, serializer, value, topic="t"):
    producer = SerializingProducer(
        {"bootstrap.servers": broker.bootstrap_servers, "value.serializer": serializer}
    )
    producer.produce(topic, value=value)
    assert producer.flush(60) == 0


def read_one(http, read, form, topic="t"):
    http.post("/consumers/ours", json={"name": "c", "format": form, "auto.offset.reset": "earliest"})
    path = "/consumers/ours/instances/c"
    http.post(f"{path}/subscription", json={"topics": [topic]})
    (found,) = read(http, path, 1)
    return found["value"]


def test_avro(broker, typed, registry, read):
    value = {"id": 7, "note": {"string": "hi"}, "data": "\u00ff"}
    body = {"value_schema": AVRO, "records": [{"value": value}]}
    made = typed.post("/topics/t", json=body, headers=media("avro"))
    assert made.status_code == 200, made.text
    number = made.json()["value_schema_id"]
    client = SchemaRegistryClient({"url": registry.url})
    assert consume(broker, AvroDeserializer(client)) == {"id": 7, "note": "hi", "data": b"\xff"}
    again = {"value_schema_id": number, "records": [{"value": {**value, "note": None}}]}
    assert typed.post("/topics/t", json=again, headers=media("avro")).json()["value_schema_id"] == number
    produce(broker, AvroSerializer(client, AVRO), {"id": 8, "note": None, "data": b"\x01"}, "theirs")
    assert read_one(typed, read, "avro", "theirs") == {"id": 8, "note": None, "data": "\x01"}


def test_json_schema(broker, typed, registry, read):
    body = {"value_schema": JSON_SCHEMA, "records": [{"value": {"id": 7}}]}
    made = typed.post("/topics/t", json=body, headers=media("jsonschema"))
    assert made.status_code == 200, made.text
    assert consume(broker, JSONDeserializer(JSON_SCHEMA)) == {"id": 7}
    client = SchemaRegistryClient({"url": registry.url})
    produce(broker, JSONSerializer(JSON_SCHEMA, client), {"id": 8}, "theirs")
    assert read_one(typed, read, "jsonschema", "theirs") == {"id": 8}


def test_protobuf(broker, typed, registry, read):
    client = SchemaRegistryClient({"url": registry.url})
    form = {"use.deprecated.format": False}
    produce(broker, ProtobufSerializer(Timestamp, client, form), Timestamp(seconds=1))
    number = client.get_latest_version("t-value").schema_id
    body = {"value_schema_id": number, "records": [{"value": "1970-01-01T00:00:02Z"}]}
    made = typed.post("/topics/ours", json=body, headers=media("protobuf"))
    assert made.status_code == 200, made.text
    assert consume(broker, ProtobufDeserializer(Timestamp, form), "ours") == Timestamp(seconds=2)
    assert read_one(typed, read, "protobuf") == "1970-01-01T00:00:01Z"
    own = {"value_schema": PROTOBUF, "records": [{"value": {"id": "7", "note": "n"}}]}
    assert typed.post("/topics/own", json=own, headers=media("protobuf")).status_code == 200


def test_keys_have_schemas_too(broker, typed, read):
    body = {
        "key_schema": '"string"',
        "value_schema": AVRO,
        "records": [{"key": "k", "value": {"id": 1, "note": None, "data": ""}}, {"key": "k", "value": None}],
    }
    made = typed.post("/topics/t", json=body, headers=media("avro")).json()
    assert made["key_schema_id"] != made["value_schema_id"]
    typed.post("/consumers/g", json={"name": "c", "format": "avro", "auto.offset.reset": "earliest"})
    typed.post("/consumers/g/instances/c/subscription", json={"topics": ["t"]})
    first, second = read(typed, "/consumers/g/instances/c", 2)
    assert (first["key"], first["value"]["id"], second["value"]) == ("k", 1, None)


@pytest.mark.parametrize(
    ("form", "body", "status", "error_code"),
    [
        ("avro", {"records": [{"key": 1}]}, 422, 42201),
        ("avro", {"records": [{"value": 1}]}, 422, 42202),
        ("avro", {"value_schema": '"int"', "records": [{"value": "x"}]}, 422, 42203),
        ("jsonschema", {"value_schema": JSON_SCHEMA, "records": [{"value": {"id": "x"}}]}, 422, 42203),
        ("protobuf", {"value_schema": PROTOBUF, "records": [{"value": {"no": 1}}]}, 422, 42203),
        ("avro", {"value_schema": '{"type": "strange"}', "records": [{"value": 1}]}, 422, 42205),
        ("avro", {"value_schema": 7, "records": [{"value": 1}]}, 422, 42205),
        ("avro", {"value_schema_id": 999, "records": [{"value": 1}]}, 408, 40801),
    ],
)
def test_schemas_and_values_that_are_refused(broker, typed, refusal, form, body, status, error_code):
    broker.create_topic("t", 1)
    assert refusal(typed.post("/topics/t", json=body, headers=media(form))) == (status, error_code)
    assert broker.records("t") == []


def test_a_schema_of_another_type_is_refused(broker, typed, refusal):
    body = {"value_schema": '"int"', "records": [{"value": 1}]}
    number = typed.post("/topics/t", json=body, headers=media("avro")).json()["value_schema_id"]
    other = {"value_schema_id": number, "records": [{"value": 1}]}
    assert refusal(typed.post("/topics/t", json=other, headers=media("jsonschema"))) == (422, 42205)


def test_v3_takes_registered_schemas(broker, typed, registry):
    cluster = typed.get("/v3/clusters").json()["data"][0]["cluster_id"]
    path = f"/v3/clusters/{cluster}/topics/t/records"
    client = SchemaRegistryClient({"url": registry.url})
    given = {"type": "AVRO", "schema": AVRO, "data": {"id": 1, "note": None, "data": ""}}
    made = typed.post(path, json={"value": given})
    assert made.status_code == 200, made.text
    told = made.json()["value"]
    assert (told["type"], told["subject"], told["schema_version"]) == ("AVRO", "t-value", 1)
    number = told["schema_id"]
    assert client.get_latest_version("t-value").schema_id == number
    data = {"id": 2, "note": None, "data": ""}
    for value in (
        {"data": data},
        {"schema_id": number, "data": data},
        {"schema_version": 1, "data": data},
        {"subject": "t-value", "data": data},
        {"subject_name_strategy": "TOPIC_NAME", "data": data},
        {"type": "AVRO", "schema": AVRO, "subject_name_strategy": "RECORD_NAME", "data": data},
    ):
        answer = typed.post(path, json={"value": value})
        assert answer.status_code == 200, answer.text
        assert answer.json()["value"]["schema_id"] == number
    assert "Order" in client.get_subjects()
    assert typed.post(path, json={"value": {"data": "no order"}}).json()["error_code"] == 42203
    assert len(broker.records("t")) == 7


def test_a_proxy_without_a_registry_says_so(broker, http, refusal):
    broker.create_topic("t", 1)
    body = {"value_schema": '"int"', "records": [{"value": 1}]}
    answer = http.post("/topics/t", json=body, headers=media("avro"))
    assert refusal(answer) == (408, 40801)
    assert "--registry-url" in answer.json()["message"]
