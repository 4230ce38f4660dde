"""confluent-kafka's own client and serializers against our registry: nothing changes for them but the URL."""

import base64
import json

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import (
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.common.schema_registry_client import ConfigCompatibilityLevel
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from confluent_kafka.schema_registry.serde import RuleExecutor
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2

pytestmark = pytest.mark.slow

V1 = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
V2 = (
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},'
    '{"name":"note","type":["null","string"],"default":null}]}'
)
BAD = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"x","type":"int"}]}'
ADDRESS = '{"type":"record","name":"Address","fields":[{"name":"street","type":"string"}]}'
USER = '{"type":"record","name":"User","fields":[{"name":"home","type":"Address"}]}'
VALUE = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture
def running(start):
    with start(users={"ann": "s:cret"}) as running:
        yield running


@pytest.fixture
def client(running):
    return SchemaRegistryClient({"url": running.url, "basic.auth.user.info": "ann:s:cret"})


def refused(code):
    return pytest.raises(SchemaRegistryError, check=lambda error: error.error_code == code)


def test_the_client_from_registration_to_deletion(client):
    first = client.register_schema("orders-value", Schema(V1, "AVRO"))
    second = client.register_schema("orders-value", Schema(V2, "AVRO"), normalize_schemas=True)
    assert (first, second) == (1, 2)
    assert client.get_subjects() == ["orders-value"]
    assert client.get_versions("orders-value") == [1, 2]
    assert client.get_latest_version("orders-value").schema_id == 2
    assert client.get_version("orders-value", 1).schema.schema_str == V1
    assert client.get_schema(1).schema_str == V1
    assert client.lookup_schema("orders-value", Schema(V1, "AVRO")).version == 1
    assert [(v.subject, v.version) for v in client.get_schema_versions(1)] == [("orders-value", 1)]
    guid = client.get_version("orders-value", 1).guid
    assert client.get_schema_by_guid(guid).schema_str == V1
    assert client.test_compatibility("orders-value", Schema(BAD, "AVRO")) is False
    assert client.test_compatibility_all_versions("orders-value", Schema(V2, "AVRO")) is True
    with refused(409):
        client.register_schema("orders-value", Schema(BAD, "AVRO"))
    assert client.delete_version("orders-value", 1) == 1
    assert client.delete_subject("orders-value") == [2]
    assert client.delete_subject("orders-value", permanent=True) == [1, 2]
    with refused(40401):
        client.get_versions("orders-value")


def test_configs_modes_references_and_contexts(client):
    assert client.set_compatibility(level="FULL") == {"compatibility": "FULL"}
    assert client.get_compatibility() == "FULL"
    client.set_config(
        "orders-value", ServerConfig(ConfigCompatibilityLevel.NONE, compatibility_group="major")
    )
    assert client.get_config("orders-value").compatibility_level == "NONE"
    client.delete_config("orders-value")
    assert client.update_mode("orders-value", "READONLY") == "READONLY"
    assert client.get_mode("orders-value") == "READONLY"
    with refused(42205):
        client.register_schema("orders-value", Schema(V1, "AVRO"))
    client.register_schema("address", Schema(ADDRESS, "AVRO"))
    references = [SchemaReference("Address", "address", 1)]
    client.register_schema("user", Schema(USER, "AVRO", references))
    assert client.get_referenced_by("address", 1) == [2]
    assert client.get_latest_version("user").schema.references == references
    client.register_schema(":.eu:user", Schema(V1, "AVRO"))
    assert client.get_contexts() == [".", ".eu"]


class Renamed(RuleExecutor):
    """A migration rule that renames a field, in place of JSONata, which needs more packages."""

    def type(self):
        return "RENAME"

    def configure(self, client_conf, rule_conf):
        pass

    def transform(self, ctx, message):
        before, after = ctx.rule.expr.split(">")
        return {**{name: value for name, value in message.items() if name != before}, after: message[before]}

    def close(self):
        pass


def test_migration_rules(client):
    """The deserializer looks up the writer's schema as it was answered, finds the versions between it and the
    reader's, and runs their rules."""

    def versioned(field, number, rules):
        text = json.dumps({"type": "record", "name": "Order", "fields": [{"name": field, "type": "long"}]})
        metadata = Metadata(tags=None, properties=MetadataProperties({"version": number}), sensitive=None)
        return Schema(text, "AVRO", [], metadata, rules)

    def rule(name, mode, expr):
        made = (name, None, RuleKind.TRANSFORM, mode, "RENAME", None, None, expr, None, None, False)
        return Rule(*made)

    client.set_config("orders-value", ServerConfig(compatibility_group="version"))
    first = versioned("size", "1", None)
    rules = RuleSet(
        [rule("up", RuleMode.UPGRADE, "size>height"), rule("down", RuleMode.DOWNGRADE, "height>size")], None
    )
    second = versioned("height", "2", rules)
    assert client.register_schema("orders-value", first) == 1
    assert client.register_schema("orders-value", second) == 2
    assert client.register_schema("orders-value", client.get_schema(2)) == 2, "nothing new"
    assert client.lookup_schema("orders-value", client.get_schema(1)).version == 1
    registry = RuleRegistry()
    registry.register_executor(Renamed())

    def use(number):
        return {"use.latest.with.metadata": {"version": number}}

    for written, value, read, expected in (
        ("1", {"size": 7}, "2", {"height": 7}),
        ("2", {"height": 7}, "1", {"size": 7}),
    ):
        writing = {"auto.register.schemas": False, **use(written)}
        data = AvroSerializer(client, None, conf=writing, rule_registry=registry)(value, VALUE)
        found = AvroDeserializer(client, None, conf=use(read), rule_registry=registry)(data, VALUE)
        assert found == expected


def test_wrong_users_hear_so(running):
    stranger = SchemaRegistryClient({"url": running.url, "basic.auth.user.info": "ann:wrong"})
    with refused(401):
        stranger.get_subjects()


def test_avro_goes_through_the_broker(broker, client):
    serialize = AvroSerializer(client, V1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("orders", serialize({"id": 42}, VALUE))
    assert producer.flush(10) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["orders"])
    message = consumer.poll(20)
    consumer.close()
    assert message.value()[:5] == b"\x00\x00\x00\x00\x01"  # the magic byte and the id of the schema
    # A reader that knows the newer schema, as it is after an evolution.
    assert AvroDeserializer(client, V2)(message.value(), VALUE) == {"id": 42, "note": None}
    assert client.get_subjects() == ["orders-value"]


def test_json_schema_there_and_back(client):
    schema = json.dumps(
        {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    )
    data = JSONSerializer(schema, client)({"id": 7}, VALUE)
    assert JSONDeserializer(schema, schema_registry_client=client)(data, VALUE) == {"id": 7}
    assert client.get_latest_version("orders-value").schema.schema_type == "JSON"


def test_protobuf_as_confluents_serializer_registers_and_reads_it(client):
    """Its serializer sends a descriptor in base64, its deserializer asks for ``format=serialized``.

    The serializer itself needs packages that the tests do not bring along.
    """
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Order").field.add(name="id", number=1, type=3, label=1)
    sent = base64.b64encode(file.SerializeToString()).decode()
    made = client.register_schema("orders-value", Schema(sent, "PROTOBUF"))
    text = client.get_version("orders-value", 1).schema.schema_str
    assert "message Order" in text
    answered = client.get_schema(made, subject_name="other", fmt="serialized").schema_str
    found = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(answered))
    assert [field.name for field in found.message_type[0].field] == ["id"]
    assert client.lookup_schema("orders-value", Schema(text, "PROTOBUF")).schema_id == made
