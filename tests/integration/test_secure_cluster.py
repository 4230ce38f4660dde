"""Three brokers with an authorizer: TLS and logins between them, rights and users that count everywhere.

What one broker is told, the others go by: users, ACLs and quotas. What brokers say to each other, nobody else
may say.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from moldau.cli.certificates import Authority
from moldau.testing import Cluster
from tests.security.row_world import item, make
from tests.security.secure_wire import Closed, Wire
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow

_PATIENCE_SECONDS = 60
_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="broker" password="of-brokers" user_broker="of-brokers" user_admin="secret" user_eve="secret" '
    'user_ann="secret";'
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    authority = Authority.create(tmp_path_factory.mktemp("ca"))
    authority.issue("broker", hosts=["localhost", "127.0.0.1"])
    settings = {
        "listeners": "PUBLIC://127.0.0.1:0,INTERNAL://127.0.0.1:0",
        "listener.security.protocol.map": "PUBLIC:SASL_PLAINTEXT,INTERNAL:SASL_SSL",
        "inter.broker.listener.name": "INTERNAL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "plain.sasl.jaas.config": _JAAS,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.directory / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.directory / "ca.pem"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker;User:admin",
        "default.replication.factor": 3,
        "offsets.topic.num.partitions": 1,
        "group.initial.rebalance.delay.ms": 0,
    }
    with Cluster(3, settings) as cluster:
        yield cluster


def _address(cluster: Cluster, broker_id: int, listener: str = "PUBLIC") -> str:
    host, port = cluster[broker_id].node.address(listener)
    return f"{host}:{port}"


def _as(cluster: Cluster, broker_id: int, user: str, mechanism: str = "PLAIN") -> dict[str, Any]:
    return {
        "bootstrap.servers": _address(cluster, broker_id),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": "secret",
    }


def _admin(cluster: Cluster, broker_id: int, user: str = "admin") -> AdminClient:
    return AdminClient(_as(cluster, broker_id, user))


def _allow(user: str, operation: AclOperation, kind: ResourceType, name: str) -> AclBinding:
    pattern, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, allow)


def _grant(admin: AdminClient, *acls: AclBinding) -> None:
    for future in admin.create_acls(list(acls)).values():
        future.result(_PATIENCE_SECONDS)


def _create(cluster: Cluster, topic: str) -> None:
    admin = _admin(cluster, 1)
    admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(_PATIENCE_SECONDS)
    for broker in cluster.brokers.values():
        metadata = broker.node.metadata
        wait_until(lambda metadata=metadata: topic in metadata.image.topics_by_name)  # type: ignore[misc]
        wait_until(
            lambda metadata=metadata: (  # type: ignore[misc]
                len(metadata.image.topics_by_name[topic].partitions[0].isr) == 3
            )
        )


def _leader(cluster: Cluster, topic: str) -> int:
    leader: int = cluster[1].node.metadata.image.topics_by_name[topic].partitions[0].leader
    return leader


def test_users_and_acls_count_at_every_broker(cluster: Cluster) -> None:
    _create(cluster, "orders")
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    wanted = UserScramCredentialUpsertion("cora", info, b"secret")
    admin = _admin(cluster, 1)
    for future in admin.alter_user_scram_credentials([wanted]).values():
        future.result(_PATIENCE_SECONDS)
    topic, group = ResourceType.TOPIC, ResourceType.GROUP
    _grant(
        _admin(cluster, 2),
        _allow("cora", AclOperation.WRITE, topic, "orders"),
        _allow("cora", AclOperation.READ, topic, "orders"),
        _allow("cora", AclOperation.READ, group, "readers"),
    )
    for broker_id in (1, 2, 3):
        producer = Producer(_as(cluster, broker_id, "cora", "SCRAM-SHA-256"))
        failures: list[Any] = []
        producer.produce(
            "orders",
            f"by {broker_id}",
            on_delivery=lambda error, _, failures=failures: failures.append(error),
        )
        assert producer.flush(_PATIENCE_SECONDS) == 0
        assert failures == [None]
    settings = {"group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = Consumer({**_as(cluster, 3, "cora", "SCRAM-SHA-256"), **settings})
    consumer.subscribe(["orders"])
    found: list[bytes] = []

    def read() -> bool:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append(message.value())
        return len(found) == 3

    wait_until(read)
    consumer.close()
    assert sorted(found) == [b"by 1", b"by 2", b"by 3"]


@pytest.mark.parametrize("broker_id", [1, 2, 3])
def test_a_request_that_is_forwarded_is_its_users(cluster: Cluster, broker_id: int) -> None:
    """Whoever may not, may not by way of a broker that may."""
    eve = _admin(cluster, broker_id, "eve")
    with pytest.raises(KafkaException) as refused:
        _grant(eve, _allow("eve", AclOperation.ALL, ResourceType.TOPIC, "*"))
    assert refused.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(KafkaException) as refused:
        eve.create_topics([NewTopic(f"of-eve-{broker_id}", 1, 3)])[f"of-eve-{broker_id}"].result(60)
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert f"of-eve-{broker_id}" not in cluster[1].node.metadata.image.topics_by_name


def test_a_quota_counts_at_the_leader(cluster: Cluster) -> None:
    _create(cluster, "clues")
    _grant(_admin(cluster, 1), _allow("ann", AclOperation.WRITE, ResourceType.TOPIC, "clues"))
    entity = item("alter_client_quotas", "EntityData", entity_type="user", entity_name="ann")
    operation = item("alter_client_quotas", "OpData", key="producer_byte_rate", value=1000.0)
    entry = item("alter_client_quotas", "EntryData", entity=[entity], ops=[operation])
    with Wire(_address(cluster, 2)).log_in("admin", "secret") as wire:
        (answer,) = wire.ask(make("AlterClientQuotas", entries=[entry]), 1).entries
        assert not answer.error_code
    leader = _leader(cluster, "clues")
    security = cluster[leader].node.metadata
    wait_until(lambda: bool(security.image.security.quotas))
    from moldau.protocol.records import Record, encode_batch

    records = bytes(encode_batch([Record(0, 1, b"k", bytes(20_000), ())]))
    data = [item("produce", "PartitionProduceData", index=0, records=records)]
    named = item("produce", "TopicProduceData", name="clues", partition_data=data)
    request = make("Produce", acks=-1, timeout_ms=30000, topic_data=[named], transactional_id=None)
    with Wire(_address(cluster, leader)).log_in("ann", "secret") as wire:
        answer = wire.ask(request, 12)
    assert not answer.responses[0].partition_responses[0].error_code
    assert answer.throttle_time_ms > 9000, "20 kB at 1 kB/s, of which ten seconds are free"


def _replica_fetch(topic: str) -> Any:
    wanted = item("fetch", "FetchPartition", partition=0, fetch_offset=0, partition_max_bytes=1000)
    named = item("fetch", "FetchTopic", topic=topic, partitions=[wanted])
    return make("Fetch", replica_id=2, max_wait_ms=0, min_bytes=0, topics=[named])


def test_nobody_else_speaks_as_a_broker(cluster: Cluster) -> None:
    _create(cluster, "secrets")
    leader = _leader(cluster, "secrets")
    before = cluster[leader].node.metadata.image.topics_by_name["secrets"].partitions
    inside = make("AlterPartition", broker_id=2, broker_epoch=-1)
    with Wire(_address(cluster, leader)).log_in("eve", "secret") as wire:
        (topic,) = wire.ask(_replica_fetch("secrets"), 12).responses
        assert topic.partitions[0].error_code == KafkaError.TOPIC_AUTHORIZATION_FAILED
        for request in (inside, make("Envelope"), make("BrokerRegistration", broker_id=4)):
            answer = wire.ask(request)
            assert answer.error_code == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    # A super user is no broker either, at a listener that is not for brokers.
    for request in (inside, make("Envelope"), make("BrokerRegistration", broker_id=4)):
        with Wire(_address(cluster, leader)).log_in("admin", "secret") as wire, pytest.raises(Closed):
            wire.ask(request)
    with Wire(_address(cluster, leader)).log_in("admin", "secret") as wire:
        (topic,) = wire.ask(_replica_fetch("secrets"), 12).responses
        assert topic.partitions[0].error_code == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert cluster[leader].node.metadata.image.topics_by_name["secrets"].partitions == before


def test_rights_outlive_the_controller(cluster: Cluster) -> None:
    """Last, because a broker is stopped in it: what was refused stays refused, and the other way round."""
    _create(cluster, "kept")
    _grant(_admin(cluster, 1), _allow("ann", AclOperation.DESCRIBE, ResourceType.TOPIC, "kept"))
    controller = cluster[1].node.metadata.image.controller_id
    cluster[controller].stop()
    other = next(number for number in (1, 2, 3) if number != controller)
    metadata = cluster[other].node.metadata
    wait_until(lambda: metadata.image.controller_id not in (controller, -1))
    for user, code in (("ann", 0), ("eve", KafkaError.TOPIC_AUTHORIZATION_FAILED)):
        with Wire(_address(cluster, other)).log_in(user, "secret") as wire:
            wanted = item("metadata", "MetadataRequestTopic", name="kept")
            (topic,) = wire.ask(make("Metadata", topics=[wanted]), 12).topics
        assert topic.error_code == code
    cluster[controller].start()
