"""Real clients at a secure broker, with every mechanism, over TLS and without; and the Masquerade story.

The story: anybody who reaches a broker can write orders in another's name. TLS, a login and ACLs close the
ways in one after the other, and each step is tried with the attack itself.
"""

import asyncio
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, KafkaException, Producer

from moldau.cli.certificates import Authority
from moldau.cluster.controller.security import ScramChange, add_acls, change_credentials
from moldau.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from moldau.security.scram import ScramMechanism, credential
from moldau.testing import Broker

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the way in which kafka-python reads its own files
    from kafka import KafkaConsumer, KafkaProducer

pytestmark = pytest.mark.slow

_MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
_PROTOCOLS = ["SASL_PLAINTEXT", "SASL_SSL"]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority.create(tmp_path_factory.mktemp("ca"))
    authority.issue("broker", hosts=["localhost", "127.0.0.1"])
    return authority


def _settings(authority: Authority) -> dict[str, str]:
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
        "sasl.jaas.config": 'x.PlainLoginModule required user_franz="metamorphosis" user_ernest="sea";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.directory / "broker.pem"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "group.initial.rebalance.delay.ms": "0",
    }


def _allow(broker: Broker, user: str, operation: Operation, kind: ResourceType, name: str) -> None:
    acl = Acl(kind, name, PatternType.PREFIXED, f"User:{user}", "*", operation, Permission.ALLOW)

    async def submit() -> None:
        await broker.node.metadata.submit(lambda image: add_acls(image, [acl]))

    broker.run(submit())


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[Broker]:
    with Broker(_settings(authority)) as broker:
        changes = [
            ScramChange("franz", mechanism, credential(mechanism, "metamorphosis", b"salt"))
            for mechanism in ScramMechanism
        ]

        async def submit() -> None:
            await broker.node.metadata.execute(lambda image: change_credentials(image, changes))

        broker.run(submit())
        _allow(broker, "franz", Operation.ALL, ResourceType.TOPIC, "novels")
        _allow(broker, "franz", Operation.ALL, ResourceType.GROUP, "readers")
        yield broker


def _address(broker: Broker, listener: str) -> str:
    host, port = broker.node.address(listener)
    return f"{host}:{port}"


def _librdkafka(broker: Broker, authority: Authority, protocol: str, mechanism: str, **more: Any) -> Any:
    return {
        "bootstrap.servers": _address(broker, protocol),
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": "franz",
        "sasl.password": "metamorphosis",
        "ssl.ca.location": str(authority.directory / "ca.pem"),
        **more,
    }


@pytest.mark.parametrize("protocol", _PROTOCOLS)
@pytest.mark.parametrize("mechanism", _MECHANISMS)
def test_librdkafka(broker: Broker, authority: Authority, protocol: str, mechanism: str) -> None:
    topic = f"novels-rd-{protocol}-{mechanism}"
    broker.create_topic(topic)
    client = _librdkafka(broker, authority, protocol, mechanism)
    producer = Producer(client)
    producer.produce(topic, b"The Castle")
    assert producer.flush(10) == 0
    consumer = Consumer({**client, "group.id": f"readers-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(20)
    consumer.close()
    assert message is not None
    assert message.value() == b"The Castle"


@pytest.mark.parametrize("protocol", _PROTOCOLS)
@pytest.mark.parametrize("mechanism", _MECHANISMS)
def test_kafka_python(broker: Broker, authority: Authority, protocol: str, mechanism: str) -> None:
    topic = f"novels-py-{protocol}-{mechanism}"
    broker.create_topic(topic)
    client: dict[str, Any] = {
        "bootstrap_servers": _address(broker, protocol),
        "security_protocol": protocol,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "franz",
        "sasl_plain_password": "metamorphosis",
        "ssl_cafile": str(authority.directory / "ca.pem"),
    }
    producer = KafkaProducer(**client)
    producer.send(topic, b"Amerika").get(20)
    producer.close()
    consumer = KafkaConsumer(
        topic, group_id=f"readers-{topic}", auto_offset_reset="earliest", consumer_timeout_ms=20000, **client
    )
    assert next(consumer).value == b"Amerika"
    consumer.close()


@pytest.mark.parametrize("protocol", _PROTOCOLS)
@pytest.mark.parametrize("mechanism", _MECHANISMS)
def test_aiokafka(broker: Broker, authority: Authority, protocol: str, mechanism: str) -> None:
    topic = f"novels-aio-{protocol}-{mechanism}"
    broker.create_topic(topic)

    async def play() -> bytes | None:
        client: dict[str, Any] = {
            "bootstrap_servers": _address(broker, protocol),
            "security_protocol": protocol,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "franz",
            "sasl_plain_password": "metamorphosis",
        }
        if protocol == "SASL_SSL":
            client["ssl_context"] = create_ssl_context(cafile=str(authority.directory / "ca.pem"))
        async with AIOKafkaProducer(**client) as producer:
            await producer.send_and_wait(topic, b"The Trial")
        group = f"readers-{topic}"
        async with AIOKafkaConsumer(
            topic, group_id=group, auto_offset_reset="earliest", **client
        ) as consumer:
            record = await asyncio.wait_for(consumer.getone(), 20)
        value: bytes | None = record.value
        return value

    assert asyncio.run(play()) == b"The Trial"


# --- the Masquerade ----------------------------------------------------------------------------------------


def _write(settings: dict[str, Any], topic: str, value: bytes) -> str | None:
    """Why a record was not written; None when it was."""
    outcome: list[str | None] = []
    producer = Producer({"message.timeout.ms": 5000, **settings})
    producer.produce(topic, value, on_delivery=lambda error, _: outcome.append(error and error.name()))
    producer.flush(10)
    return outcome[0] if outcome else "no answer"


def test_the_masquerade(broker: Broker, authority: Authority, tmp_path: Path) -> None:
    broker.create_topic("orders")
    mallory = b"100 masks for Mallory, to be paid by Ernest"

    # Where nobody is asked who they are, anybody orders in anybody's name.
    assert _write({"bootstrap.servers": _address(broker, "PLAINTEXT")}, "orders", mallory) is None

    # TLS keeps out who does not trust our authority, and whom we do not trust.
    stranger = Authority.create(tmp_path)
    distrustful = _librdkafka(broker, stranger, "SASL_SSL", "PLAIN")
    assert _write(distrustful, "orders", mallory) is not None

    # A login keeps out who does not know a password.
    guess = _librdkafka(broker, authority, "SASL_SSL", "PLAIN", **{"sasl.password": "castle"})
    assert _write(guess, "orders", mallory) is not None

    # ACLs keep Franz from orders, though he may log in, and do not tell him whether they exist.
    franz = _librdkafka(broker, authority, "SASL_SSL", "PLAIN")
    assert _write(franz, "orders", mallory) == "TOPIC_AUTHORIZATION_FAILED"
    assert _write(franz, "no-such-topic", mallory) == "TOPIC_AUTHORIZATION_FAILED"

    # Ernest writes orders, and nobody reads them who was not let.
    _allow(broker, "ernest", Operation.WRITE, ResourceType.TOPIC, "orders")
    ernest = {**franz, "sasl.username": "ernest", "sasl.password": "sea"}
    assert _write(ernest, "orders", b"one mask for Ernest") is None
    reader = Consumer({**franz, "group.id": "readers-of-orders", "auto.offset.reset": "earliest"})
    reader.subscribe(["orders"])
    message = reader.poll(20)
    assert message is not None
    error = message.error()
    reader.close()
    assert error is not None
    assert error.name() == "TOPIC_AUTHORIZATION_FAILED"
    values = [record.value for record in broker.records("orders")]
    assert values == [mallory, b"one mask for Ernest"]


def test_a_wrong_password_is_refused_by_every_mechanism(broker: Broker, authority: Authority) -> None:
    for mechanism in _MECHANISMS:
        wrong = _librdkafka(broker, authority, "SASL_PLAINTEXT", mechanism, **{"sasl.password": "castle"})
        with pytest.raises(KafkaException):
            Consumer({**wrong, "group.id": "readers"}).list_topics(timeout=1)
