"""``mm2.properties`` as MirrorMaker 2 reads it."""

import pytest

from moldau.base.settings import parse_properties
from moldau.mirror.rules.properties import read_settings
from moldau.mirror.running import client_settings

#: The file of the measurements with a real MirrorMaker 2.
BOTH_WAYS = """
clusters=A, B
A.bootstrap.servers=127.0.0.1:33192
B.bootstrap.servers=127.0.0.1:33292
A->B.enabled=true
B->A.enabled=true
A->B.topics=.*
B->A.topics=.*
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
refresh.topics.interval.seconds=5
refresh.groups.interval.seconds=5
sync.topic.configs.interval.seconds=10
sync.topic.acls.interval.seconds=10
emit.checkpoints.interval.seconds=3
sync.group.offsets.enabled=true
sync.group.offsets.interval.seconds=3
"""
MINIMAL = {
    "clusters": "A,B",
    "A.bootstrap.servers": "a:1",
    "B.bootstrap.servers": "b:1",
    "A->B.enabled": "true",
}


def test_a_real_file() -> None:
    settings = read_settings(parse_properties(BOTH_WAYS))
    assert [flow.name for flow in settings.flows] == ["A->B", "B->A"]
    assert settings.clusters["B"]["bootstrap.servers"] == "127.0.0.1:33292"
    assert settings.unknown == ()
    flow = settings.flows[0]
    assert flow.replication_factor == flow.offset_syncs_replication_factor == 1
    assert flow.refresh_topics_seconds == 5
    assert flow.sync_groups
    assert flow.sync_groups_seconds == flow.emit_checkpoints_seconds == 3


def test_the_defaults_are_kafkas() -> None:
    (flow,) = read_settings(MINIMAL).flows
    assert flow.refresh_topics_seconds == flow.sync_configs_seconds == 600
    assert (flow.emit_heartbeats_seconds, flow.emit_checkpoints_seconds, flow.sync_groups) == (1, 60, False)
    assert flow.offset_syncs_location == "source"
    assert not flow.policy.identity
    assert "orders" in flow.topics
    assert "__consumer_offsets" not in flow.topics
    assert "mm2-offset-syncs.B.internal" not in flow.topics
    assert "orders.replica" not in flow.topics
    assert "connect-foo" not in flow.groups
    assert "console-consumer-123" not in flow.groups
    assert "min.insync.replicas" in flow.configs_exclude
    assert "retention.ms" not in flow.configs_exclude


def test_a_flow_has_its_own_settings_before_those_of_all() -> None:
    (flow,) = read_settings(
        MINIMAL
        | {
            "topics": "orders",
            "A->B.topics": "pay.*, audit",
            "topics.exclude": "payroll",
            "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            "A->B.consumer.isolation.level": "read_uncommitted",
            "A->B.refresh.topics.enabled": "false",
        }
    ).flows
    assert "payments" in flow.topics
    assert "audit" in flow.topics
    assert "orders" not in flow.topics
    assert "payroll" not in flow.topics
    assert flow.policy.identity
    assert flow.isolation_level == "read_uncommitted"
    assert flow.refresh_topics_seconds == 0


def test_settings_of_clients() -> None:
    settings = read_settings(
        MINIMAL
        | {
            "security.protocol": "SASL_SSL",
            "B.security.protocol": "PLAINTEXT",
            "A.consumer.sasl.mechanism": "PLAIN",
            "A->B.producer.linger.ms": "5",
        }
    )
    assert settings.clusters["A"]["security.protocol"] == "SASL_SSL"
    assert settings.clusters["A"]["sasl.mechanism"] == "PLAIN"
    assert settings.clusters["B"]["security.protocol"] == "PLAINTEXT"
    assert settings.client_overrides == {"A->B": {"producer": {"linger.ms": "5"}}}
    assert client_settings(settings, settings.flows[0])["B"]["linger.ms"] == "5"
    assert settings.unknown == ()


def test_a_slip_of_the_pen_is_reported() -> None:
    settings = read_settings(MINIMAL | {"A->B.topcis": "orders", "emit.heartbeat.enabled": "false"})
    assert settings.unknown == ("A->B.topcis", "emit.heartbeat.enabled")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"clusters": ""}, "clusters="),
        ({"clusters": "A, A"}, "twice"),
        ({"B.bootstrap.servers": ""}, "B.bootstrap.servers"),
        ({"A->B.enabled": "yes"}, "true or false"),
        ({"refresh.topics.interval.seconds": "soon"}, "not a number"),
        ({"refresh.topics.interval.seconds": "-1"}, "less than"),
        ({"topics": "a(b"}, "regular expression"),
        ({"replication.policy.class": "Own"}, "Own"),
        ({"moldau.mode": "sometimes"}, "moldau.mode"),
        ({"A.consumer.isolation.level": "serializable"}, "isolation.level"),
        ({"A.consumer.auto.offset.reset": "now"}, "auto.offset.reset"),
        ({"offset-syncs.topic.location": "moon"}, "offset-syncs"),
    ],
)
def test_values_that_mean_nothing(given: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_settings(MINIMAL | given)
