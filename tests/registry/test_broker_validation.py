"""A broker that checks the schemas of records: a real producer, a real registry, a real refusal."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from moldau.testing import Broker

pytestmark = pytest.mark.slow

ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
OTHER = '{"type":"record","name":"Other","fields":[{"name":"id","type":"long"}]}'
VALUE = SerializationContext("orders", MessageField.VALUE)
VALIDATED = {"confluent.value.schema.validation": "true"}
USER = "broker:s:cret"


@pytest.fixture
def registry(start):
    with start(users={"broker": "s:cret"}) as running:
        yield running


@pytest.fixture
def client(registry):
    return SchemaRegistryClient({"url": registry.url, "basic.auth.user.info": USER})


@pytest.fixture
def checking(registry):
    """A second broker, which asks the registry that lives on the first."""
    settings = {"confluent.schema.registry.url": registry.url, "confluent.basic.auth.user.info": USER}
    with Broker(settings) as broker:
        broker.create_topic("orders", configs=VALIDATED)
        broker.create_topic("free")
        yield broker


def produce(broker, *values, topic="orders", key=None, headers=(), **configs):
    """The error of each value, None for those that were taken; in one batch."""
    outcomes = {}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50, **configs})
    for index, value in enumerate(values):
        producer.produce(
            topic,
            value,
            key,
            headers=list(headers),
            on_delivery=lambda error, _, index=index: outcomes.__setitem__(index, error),
        )
    assert producer.flush(20) == 0
    return [outcomes[index] and outcomes[index].code() for index in range(len(values))]


def framed(schema_id):
    return b"\0" + schema_id.to_bytes(4, "big") + b"\2"


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_values_with_a_registered_schema_are_taken(checking, client, codec, idempotent):
    serialize = AvroSerializer(client, ORDER)
    values = [serialize({"id": number}, VALUE) for number in range(100)]
    configs = {"compression.type": codec, "enable.idempotence": idempotent, "batch.num.messages": 3}
    assert produce(checking, *values, None, **configs) == [None] * 101
    assert [record.value for record in checking.records("orders")] == [*values, None]


def test_the_records_to_blame_are_named(checking, client):
    schema_id = client.register_schema("orders-value", Schema(ORDER, "AVRO"))
    elsewhere = client.register_schema("other-value", Schema(OTHER, "AVRO"))
    good = framed(schema_id)
    outcomes = produce(checking, good, framed(elsewhere), good, framed(77), b"plain")
    # librdkafka tells the records to blame from those that were only in the same batch.
    blamed, beside = KafkaError.INVALID_RECORD, KafkaError._INVALID_DIFFERENT_RECORD
    assert outcomes == [beside, blamed, beside, blamed, blamed]
    assert checking.records("orders") == []
    assert produce(checking, b"plain", topic="free") == [None]


def test_a_schema_that_is_registered_late_is_seen_when_the_memory_of_it_ends(checking, client):
    assert produce(checking, framed(1)) == [KafkaError.INVALID_RECORD]
    assert client.register_schema("orders-value", Schema(ORDER, "AVRO")) == 1
    assert produce(checking, framed(1)) == [KafkaError.INVALID_RECORD]
    checking.clock.advance(6)
    assert produce(checking, framed(1)) == [None]


def alter(broker, **configs):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, "orders", incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(20)


def test_the_switch(checking):
    alter(checking, confluent_value_schema_validation="false")
    assert produce(checking, b"plain") == [None]
    alter(checking, confluent_key_schema_validation="true")
    assert produce(checking, b"no key") == [None]
    assert produce(checking, b"plain", key=b"plain") == [KafkaError.INVALID_RECORD]
    with pytest.raises(KafkaException, match="TopicNameStrategy"):
        alter(checking, confluent_value_subject_name_strategy="RecordNameStrategy")


def test_a_guid_in_a_header(checking, client):
    schema_id = client.register_schema("orders-value", Schema(ORDER, "AVRO"))
    guid = client.get_version("orders-value", 1).guid.replace("-", "")
    header = ("__value_schema_id", b"\1" + bytes.fromhex(guid))
    assert schema_id == 1
    assert produce(checking, b"\2", headers=[header]) == [None]
    other = ("__value_schema_id", b"\1" + bytes(16))
    assert produce(checking, b"\2", headers=[other]) == [KafkaError.INVALID_RECORD]


def test_transactions_are_checked_too(checking, client):
    schema_id = client.register_schema("orders-value", Schema(ORDER, "AVRO"))
    producer = Producer({"bootstrap.servers": checking.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("orders", framed(schema_id))
    producer.commit_transaction(20)
    assert len(checking.records("orders")) == 1


def test_a_registry_that_is_away_is_waited_for(start):
    """Producers try again until it is back: here they give up first."""
    with start() as registry:
        url = registry.url
    with Broker({"confluent.schema.registry.url": url}) as broker:
        broker.create_topic("orders", configs=VALIDATED)
        outcome = produce(broker, framed(1), **{"retries": 1, "retry.backoff.ms": 1})
        assert outcome == [KafkaError.REQUEST_TIMED_OUT]


def test_a_broker_without_a_registry_says_so(broker):
    broker.create_topic("orders", configs=VALIDATED)
    assert produce(broker, framed(1)) == [KafkaError.INVALID_CONFIG]


def test_many_producers_at_once(checking, client):
    schema_id = client.register_schema("orders-value", Schema(ORDER, "AVRO"))
    with ThreadPoolExecutor(4) as threads:
        outcomes = list(threads.map(lambda _: produce(checking, framed(schema_id)), range(4)))
    assert outcomes == [[None]] * 4
    assert len(checking.records("orders")) == 4
