"""The console tools for records with a schema, with confluent-kafka's serializers on the other side."""

import json

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from moldau.client.registry.schema_registry import RegistryClient
from tests.shared.services import running_registry

pytestmark = pytest.mark.slow

ORDER = (
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},'
    '{"name":"note","type":["null","string"]}]}'
)
VALUE = SerializationContext("orders", MessageField.VALUE)
PROTO = 'syntax = "proto3"; package shop; message Order { int64 id = 1; string first_note = 2; }'
JSON_SCHEMA = '{"title":"Order","type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}'


@pytest.fixture
def registry(broker):
    """The URL of an empty registry on the broker of the test."""
    with running_registry(broker.bootstrap_servers) as found:
        yield found.url


@pytest.fixture
def produce(broker, registry, tool):
    def run(name, lines, *properties, code=0):
        words = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "orders", "--timeout", "0"]
        for each in (f"schema.registry.url={registry}", *properties):
            words += ["--property", each]
        result = tool(f"kafka-{name}-console-producer", *words, stdin=lines.encode())
        assert result.code == code, result
        return result

    return run


@pytest.fixture
def consume(broker, registry, tool):
    def run(name, *properties, count):
        words = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "orders", "--from-beginning"]
        for each in (f"schema.registry.url={registry}", *properties):
            words += ["--property", each]
        return tool(f"kafka-{name}-console-consumer", *words, "--max-messages", str(count))

    return run


def test_avro_there_and_back(broker, registry, produce, consume):
    lines = '{"id":1,"note":null}\n{"id":-9000000000,"note":{"string":"čaj"}}\n'
    produce("avro", lines, f"value.schema={ORDER}")
    result = consume("avro", count=2)
    assert (result.code, result.stdout) == (0, lines)
    deserialize = AvroDeserializer(SchemaRegistryClient({"url": registry}))
    values = [deserialize(record.value, VALUE) for record in broker.records("orders")]
    assert values == [{"id": 1, "note": None}, {"id": -9000000000, "note": "čaj"}]


def test_avro_of_another_serializer(broker, registry, consume):
    serialize = AvroSerializer(SchemaRegistryClient({"url": registry}), ORDER)
    broker.create_topic("orders")
    broker.produce("orders", serialize({"id": 5, "note": "x"}, VALUE), key=b"k")
    broker.produce("orders", None, key=b"k")
    deserializer = "key.deserializer=org.apache.kafka.common.serialization.StringDeserializer"
    shown = consume("avro", "print.key=true", "print.schema.ids=true", deserializer, count=2).stdout
    assert shown == 'k\t{"id":5,"note":{"string":"x"}}\t1\nk\tnull\n'


def test_keys_with_a_schema(broker, registry, produce, consume):
    produce(
        "avro",
        '"a"|{"id":1,"note":null}\n',
        "parse.key=true",
        "key.separator=|",
        'key.schema={"type":"string"}',
        f"value.schema={ORDER}",
    )
    with RegistryClient(registry) as client:
        assert client.subjects() == ["orders-key", "orders-value"]
    assert consume("avro", "print.key=true", count=1).stdout == '"a"\t{"id":1,"note":null}\n'


def test_ids_files_and_the_latest(broker, registry, produce, consume, tmp_path):
    with RegistryClient(registry) as client:
        client.register("orders-value", ORDER)
    produce("avro", '{"id":1,"note":null}', "value.schema.id=1")
    produce("avro", '{"id":2,"note":null}', "use.latest.version=true")
    file = tmp_path / "order.avsc"
    file.write_text(ORDER)
    produce("avro", '{"id":3,"note":null}', f"value.schema.file={file}", "auto.register=false")
    shown = consume("avro", count=3).stdout.splitlines()
    assert [json.loads(line)["id"] for line in shown] == [1, 2, 3]


@pytest.mark.parametrize(
    ("line", "properties", "said"),
    [
        ("{", [f"value.schema={ORDER}"], "Error deserializing json { to Avro"),
        ('{"id":"x","note":null}', [f"value.schema={ORDER}"], "id: 'x' (str) is no long"),
        ('{"id":1,"note":"x"}', [f"value.schema={ORDER}"], "names no branch of the union"),
        ('{"id":1}', [f"value.schema={ORDER}"], "has a field 'note' that is not there"),
        ("1", [], "Must provide one of value.schema"),
        ("1", ["value.schema=nonsense"], "cannot be had"),
        ("1", ["value.schema.id=7"], "cannot be had"),
        ("1", ["value.schema.id=x"], "is a number"),
        ("1", ["value.schema.file=/no/such/file"], "cannot be read"),
        ("1", ["value.schema=1", "value.refs=x"], "value.refs has not the form"),
    ],
)
def test_what_is_wrong_is_told(produce, line, properties, said):
    assert said in produce("avro", line + "\n", *properties, code=1).stderr


def test_a_value_of_another_maker(broker, registry, consume):
    broker.create_topic("orders")
    broker.produce("orders", b"plain")
    result = consume("avro", count=1)
    assert result.code == 1
    assert "SerializationException" in result.stderr
    assert "another serializer" in result.stderr


def test_json_schema(broker, registry, produce, consume):
    produce("json-schema", '{"id": 1}\n', f"value.schema={JSON_SCHEMA}")
    assert consume("json-schema", count=1).stdout == '{"id":1}\n'
    deserialize = JSONDeserializer(
        JSON_SCHEMA, schema_registry_client=SchemaRegistryClient({"url": registry})
    )
    assert deserialize(broker.records("orders")[0].value, VALUE) == {"id": 1}
    refused = produce("json-schema", '{"id": "x"}\n', f"value.schema={JSON_SCHEMA}", code=1)
    assert "Error deserializing json" in refused.stderr
    assert "not JSON" not in consume("avro", count=1).stdout
    assert "of type JSON" in consume("avro", count=1).stderr


def test_protobuf(broker, registry, produce, consume):
    produce("protobuf", '{"id": 7, "firstNote": "x"}\n{}\n', f"value.schema={PROTO}")
    shown = consume("protobuf", count=2).stdout
    assert shown == '{"id":"7","firstNote":"x"}\n{"id":"0","firstNote":""}\n'
    assert "no such" not in produce("protobuf", '{"nope": 1}\n', f"value.schema={PROTO}", code=1).stdout
    refused = produce("protobuf", "{}", f"value.schema={PROTO}", "value.schema.full.name=No", code=1)
    assert "no message 'No'" in refused.stderr
