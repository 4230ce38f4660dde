import pytest

from moldau.base.settings import SettingError, parse_properties
from moldau.cluster.configs.broker_settings import (
    CONSUMER_ASSIGNORS,
    load_broker_settings,
    parse_connection_limits,
)
from moldau.cluster.configs.topic_configs import TOPIC_SETTINGS
from moldau.cluster.records import Endpoint
from moldau.coordinators.groups.consumer.assignors import ASSIGNORS

#: What Apache Kafka's own config/server.properties sets, with comments and blanks like there.
SERVER_PROPERTIES = """
# The node
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093

# Where it listens
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,\\
    SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600

# Logs
log.dirs=/var/lib/kafka
num.partitions=3
num.recovery.threads.per.data.dir=1

offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1

#log.flush.interval.messages=10000
#log.flush.interval.ms=1000
log.retention.hours=168
#log.retention.bytes=1073741824
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def test_nothing_set_is_a_broker_on_the_loopback() -> None:
    settings = load_broker_settings({})
    assert settings.listeners == (Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),)
    assert settings.advertised_listeners == settings.listeners
    assert settings.node_id == settings["node.id"] == settings.broker_id == 1
    assert settings.log_dirs == ("/tmp/kafka-logs",)
    assert settings.moldau_connection_inflight_requests_max == 100
    assert settings.moldau_connection_outbound_bytes_max == 1024 * 1024
    assert settings.moldau_parked_requests_max == 100_000
    assert settings.moldau_request_log is False
    assert settings.warnings == ()
    assert settings.origins["node.id"] == "default"
    assert "num.partitions" in set(settings)


def test_kafkas_own_file_is_taken_with_one_warning() -> None:
    settings = load_broker_settings(parse_properties(SERVER_PROPERTIES))
    assert settings.listeners == (Endpoint("PLAINTEXT", "", 9092, "PLAINTEXT"),)
    assert settings.advertised_listeners == (Endpoint("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),)
    assert settings.inter_broker_listener.name == "PLAINTEXT"
    assert settings.log_dirs == ("/var/lib/kafka",)
    assert settings.num_partitions == 3
    assert settings.static["log.retention.hours"] == "168"
    assert settings.origins["num.partitions"] == "properties"
    assert settings.warnings == (
        "these settings of Kafka have no effect here: process.roles, controller.quorum.bootstrap.servers; "
        "these listeners of controller.listener.names are not opened: CONTROLLER",
    )


def test_unknown_names_are_in_the_same_warning() -> None:
    given = {
        "metric.reporters": "x",
        "num.partition": "3",
        "retention.ms": "5",
        "qqq": "1",
        "security.providers": "x",
    }
    (warning,) = load_broker_settings(given).warnings
    assert warning == (
        "these settings of Kafka have no effect here: metric.reporters, security.providers; "
        "these settings are not known: num.partition (did you mean num.partitions?), "
        "retention.ms (of a topic; for all of them: log.retention.ms), qqq"
    )


def test_a_command_line_stands_above_the_file() -> None:
    file = {
        "num.partitions": "3",
        "log.retention.ms": "5",
        "broker.id": "7",
        "log.dirs": "/a",
        "fetch.max.bytes": "2000",
    }
    settings = load_broker_settings(
        file, {"num.partitions": "4", "log.retention.hours": "1", "node.id": "8", "log.dir": "/b"}
    )
    assert settings.num_partitions == 4
    assert settings.fetch_max_bytes == 2000
    # Who sets a setting in other units, or by its other name, means it.
    assert settings["log.retention.ms"] is None
    assert settings["log.retention.hours"] == 1
    assert settings.node_id == settings.broker_id == 8
    assert settings.log_dirs == ("/b",)
    assert settings.origins["num.partitions"] == "overrides"
    assert settings.origins["fetch.max.bytes"] == "properties"


@pytest.mark.parametrize(
    ("given", "node_id"),
    [
        ({"broker.id": "3"}, 3),
        ({"node.id": "3"}, 3),
        ({"node.id": "3", "broker.id": " 3"}, 3),
        ({"broker.id": "-1"}, 1),
    ],
)
def test_the_number_of_a_node(given: dict[str, str], node_id: int) -> None:
    settings = load_broker_settings(given)
    assert (settings.node_id, settings.broker_id) == (node_id, node_id)
    assert settings.static["broker.id"] == str(node_id)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"num.partitions": "0"},
            "Invalid value 0 for configuration num.partitions: Value must be at least 1",
        ),
        ({"num.partitions": ""}, "Invalid value  for configuration num.partitions: Not a number of type INT"),
        (
            {"auto.create.topics.enable": "yes"},
            "Invalid value yes for configuration auto.create.topics.enable: "
            "Expected value to be either true or false",
        ),
        (
            {"log.dirs": ""},
            "Configuration 'log.dirs' must not be empty. Valid values include: any non-empty value",
        ),
        ({"log.dirs": "/a,,/b"}, "Configuration 'log.dirs' values must not be empty."),
        ({"broker.id": "-5"}, "Invalid value -5 for configuration node.id: Value must be at least 0"),
        ({"node.id": "-1"}, "Invalid value -1 for configuration node.id: Value must be at least 0"),
        (
            {"node.id": "1", "broker.id": "2"},
            "You must set `node.id` to the same value as `broker.id`. They are 1 and 2.",
        ),
        ({"log.retention.ms": "0"}, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        (
            {"log.retention.hours": "0"},
            "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        ),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be greater than or equal to 0"),
        (
            {"queued.max.request.bytes": "5"},
            "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
        ),
        (
            {"replica.lag.time.max.ms": "100"},
            "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms "
            "to prevent frequent changes in ISR",
        ),
        (
            {"replica.socket.timeout.ms": "100"},
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms "
            "to prevent unnecessary socket timeouts",
        ),
        (
            {"log.cleaner.dedupe.buffer.size": "5"},
            "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        ),
        (
            {"group.coordinator.rebalance.protocols": "consumer"},
            "Disabling the 'classic' protocol is not supported.",
        ),
        ({"offsets.topic.compression.codec": "9"}, "Unknown compression type id: 9"),
        (
            {"group.consumer.session.timeout.ms": "70000"},
            "group.consumer.session.timeout.ms must be less than or equal to "
            "group.consumer.max.session.timeout.ms",
        ),
        (
            {"group.share.record.lock.duration.ms": "1000"},
            "group.share.record.lock.duration.ms must be greater than or equal to "
            "group.share.min.record.lock.duration.ms",
        ),
        (
            {"group.consumer.min.heartbeat.interval.ms": "20000"},
            "group.consumer.max.heartbeat.interval.ms must be greater than or equal to "
            "group.consumer.min.heartbeat.interval.ms",
        ),
        (
            {
                "group.consumer.heartbeat.interval.ms": "50000",
                "group.consumer.max.heartbeat.interval.ms": "60000",
            },
            "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms",
        ),
        (
            {"group.streams.num.standby.replicas": "5"},
            "group.streams.num.standby.replicas must be less than or equal to "
            "group.streams.max.standby.replicas",
        ),
        (
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
        ),
        (
            {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"},
            "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. "
            "Use a routable IP address.",
        ),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        load_broker_settings(given)
    assert str(caught.value) == message


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(SettingError) as caught:
        load_broker_settings({"num.partitions": "0", "fetch.max.bytes": "x"})
    assert str(caught.value).splitlines() == [
        "Invalid value 0 for configuration num.partitions: Value must be at least 1",
        "Invalid value x for configuration fetch.max.bytes: Not a number of type INT",
    ]
    with pytest.raises(SettingError) as caught:
        load_broker_settings({"log.roll.ms": "0", "listeners": "X://:1"})
    assert len(str(caught.value).splitlines()) == 2


def test_an_unknown_attribute_is_no_setting() -> None:
    with pytest.raises(AttributeError, match=r"there is no setting no\.such"):
        _ = load_broker_settings({}).no_such


def test_a_dynamic_change_is_seen_by_who_holds_the_settings() -> None:
    settings = load_broker_settings({"max.connections": "10"})
    assert settings.change({"max.connections": "20", "moldau.request.log": "true"}, {}) == {
        "max.connections",
        "moldau.request.log",
    }
    assert (settings.max_connections, settings["max.connections"], settings.moldau_request_log) == (
        20,
        20,
        True,
    )
    # One broker's own value stands above that of all brokers.
    assert settings.change({"max.connections": "20"}, {"max.connections": "30"}) == {
        "max.connections",
        "moldau.request.log",
    }
    assert (settings.max_connections, settings.moldau_request_log) == (30, False)
    assert settings.layers.broker == {"max.connections": "30"}
    assert settings.change({}, {}) == {"max.connections"}
    assert settings.max_connections == 10


def test_a_change_leaves_alone_what_cannot_change() -> None:
    settings = load_broker_settings({})
    dynamic = {
        "listeners": "PLAINTEXT://:1",
        "num.partitions": "7",
        "no.such": "1",
        "max.connections": "broken",
    }
    assert settings.change({}, dynamic) == frozenset()
    assert settings.listeners[0].port == 9092
    assert settings.num_partitions == 1


@pytest.mark.parametrize("name", ["offsets.topic.segment.bytes", "transaction.state.log.segment.bytes"])
def test_segments_of_internal_topics_are_as_large_as_those_of_others(name: str) -> None:
    with pytest.raises(SettingError, match=f"{name} must be at least 1048576, .* but it is 1048575"):
        load_broker_settings({name: "1048575"})
    assert load_broker_settings({name: "1048576"})[name] == TOPIC_SETTINGS["segment.bytes"].parse("1048576")
    with pytest.raises(SettingError):
        TOPIC_SETTINGS["segment.bytes"].parse("1048575")


def test_assignors_are_those_that_there_are() -> None:
    with pytest.raises(SettingError, match=r"names sticky, com\.acme\.Own, which .* has uniform and range"):
        load_broker_settings({"group.consumer.assignors": "range,sticky,com.acme.Own"})
    assert set(CONSUMER_ASSIGNORS.values()) == set(ASSIGNORS)
    assert load_broker_settings({"group.consumer.assignors": ",".join(CONSUMER_ASSIGNORS)})


def test_internal_topics_make_do_with_the_brokers_there_are() -> None:
    settings = load_broker_settings({})
    assert settings.at_most_brokers("offsets.topic.replication.factor", 1) == 1
    assert settings.at_most_brokers("transaction.state.log.min.isr", 5) == 2
    assert settings.at_most_brokers("offsets.topic.replication.factor", 0) == 1


def test_connection_limits() -> None:
    assert parse_connection_limits("") == {}
    assert parse_connection_limits("127.0.0.1:5, ::1:6,h:0") == {"127.0.0.1": 5, "::1": 6, "h": 0}
    for text in ("a", "127.0.0.1:x", "bad host:2", ":5"):
        assert parse_connection_limits(text) is None
    settings = load_broker_settings(
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "a:1"}
    )
    assert settings.max_connections_per_ip == 0
