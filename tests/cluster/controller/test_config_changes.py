"""Changes of configs as Kafka 4.3.0 takes or refuses them, row by row."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.cluster.configs.layers import ConfigLayers
from moldau.cluster.controller.config_changes import (
    AlterOperation,
    ConfigChange,
    alter_broker,
    alter_broker_loggers,
    alter_client_metrics,
    alter_default_broker,
    alter_group,
    alter_topic,
    replace_broker,
    replace_client_metrics,
    replace_default_broker,
    replace_group,
    replace_topic,
    validate_topic_overrides,
)
from moldau.protocol.errors import ErrorCode, KafkaError

DATA = Path(__file__).parents[2] / "data"
TOPIC: dict[str, Any] = json.loads((DATA / "topic_configs.json").read_text())
BROKER: dict[str, Any] = json.loads((DATA / "broker_configs.json").read_text())
LAYERS = ConfigLayers(default_broker={"min.insync.replicas": "1"})
SET, DELETE, APPEND, SUBTRACT = AlterOperation

#: Kafka speaks of its quorum and its classes here, or of nothing; ours says what is the matter.
OWN_ANSWERS = {
    "9 retention.ms=1": (ErrorCode.INVALID_REQUEST, "Unknown operations type 9"),
    "SET listeners=PLAINTEXT://:1": (
        ErrorCode.INVALID_REQUEST,
        "listeners cannot change while the broker runs: set it in its file and start it again",
    ),
    "SET metric.reporters=no.such.Class": (
        ErrorCode.INVALID_REQUEST,
        "metric.reporters names Java classes, which this broker cannot load",
    ),
    "SET sasl.jaas.config=x": (
        ErrorCode.INVALID_REQUEST,
        "sasl.jaas.config is not stored: a JAAS line reads: <login module> required <option>=<value> …;",
    ),
}


def row_id(row: list[Any]) -> str:
    return " ".join(f"{operation} {name}={value}" for operation, name, value in row[0])


def change(operation: str | int, name: str, value: str | None) -> ConfigChange:
    number = operation if isinstance(operation, int) else AlterOperation[operation]
    return ConfigChange(name, number, value)


def answer(alter: Callable[[list[ConfigChange]], Any], row: list[Any]) -> tuple[int, str | None]:
    try:
        alter([change(*each) for each in row[0]])
    except KafkaError as error:
        return error.code, error.message
    return ErrorCode.NONE, None


def refusal(call: Callable[[], object]) -> tuple[ErrorCode, str | None]:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code, caught.value.message


@pytest.mark.parametrize("row", TOPIC["alter"], ids=row_id)
def test_topic(row: list[Any]) -> None:
    expected = OWN_ANSWERS.get(row_id(row), (row[1], row[2]))
    assert answer(lambda changes: alter_topic(LAYERS, {}, changes), row) == expected


@pytest.mark.parametrize("row", BROKER["alter_broker"], ids=row_id)
def test_broker(row: list[Any]) -> None:
    expected = OWN_ANSWERS.get(row_id(row), (row[1], row[2]))
    assert answer(lambda changes: alter_broker(LAYERS, changes), row) == expected


@pytest.mark.parametrize("row", BROKER["alter_default_broker"], ids=row_id)
def test_default_broker(row: list[Any]) -> None:
    # Kafka's own words here, since it says the same of all that one broker only may have.
    own = {} if row[0][0][1] in ("listeners", "sasl.jaas.config") else OWN_ANSWERS
    expected = own.get(row_id(row), (row[1], row[2]))
    assert answer(lambda changes: alter_default_broker(LAYERS, changes), row) == expected


@pytest.mark.parametrize("row", BROKER["alter_group"], ids=row_id)
def test_group(row: list[Any]) -> None:
    assert answer(lambda changes: alter_group(LAYERS, {}, changes), row) == (row[1], row[2])


@pytest.mark.parametrize("row", BROKER["alter_client_metrics"], ids=row_id)
def test_client_metrics(row: list[Any]) -> None:
    assert answer(lambda changes: alter_client_metrics({}, changes), row) == (row[1], row[2])


@pytest.mark.parametrize("row", BROKER["alter_broker_loggers"], ids=row_id)
def test_broker_loggers(row: list[Any]) -> None:
    assert answer(alter_broker_loggers, row) == (row[1], row[2])


# ----------------------------------------------------------------------------------- what comes of a change


@pytest.mark.parametrize(
    ("current", "operation", "value", "after"),
    [
        ({}, SET, "compact", {"cleanup.policy": "compact"}),
        ({}, APPEND, "compact", {"cleanup.policy": "delete,compact"}),
        ({}, APPEND, "delete", {"cleanup.policy": "delete"}),
        ({}, SUBTRACT, "delete", {"cleanup.policy": ""}),
        ({"cleanup.policy": "compact,delete"}, SUBTRACT, "delete", {"cleanup.policy": "compact"}),
        ({"cleanup.policy": "compact"}, APPEND, "delete,compact,", {"cleanup.policy": "compact,delete"}),
        ({"cleanup.policy": "compact"}, SUBTRACT, "delete", {"cleanup.policy": "compact"}),
        ({"cleanup.policy": "compact"}, DELETE, None, {}),
        ({"cleanup.policy": "compact"}, DELETE, "ignored", {}),
        ({"flush.ms": "5"}, DELETE, None, {"flush.ms": "5"}),
    ],
)
def test_the_new_configs_of_a_topic(
    current: dict[str, str], operation: AlterOperation, value: str | None, after: dict[str, str]
) -> None:
    before = dict(current)
    assert alter_topic(LAYERS, current, [ConfigChange("cleanup.policy", operation, value)]) == after
    assert current == before


def test_a_whole_set_takes_the_place_of_another() -> None:
    assert replace_topic(LAYERS, [("retention.ms", "5000")]) == {"retention.ms": "5000"}
    assert replace_topic(LAYERS, []) == {}
    assert replace_group(LAYERS, [("share.isolation.level", "read_committed")]) == {
        "share.isolation.level": "read_committed"
    }
    assert replace_client_metrics([("metrics", "*")]) == {"metrics": "*"}
    assert replace_broker(
        LAYERS._replace(broker={"max.connections": "5"}), [("log.cleaner.threads", "2")]
    ) == {"log.cleaner.threads": "2"}
    configs = [("min.insync.replicas", "2"), ("log.retention.ms", "5")]
    assert replace_default_broker(LAYERS, configs) == dict(configs)


@pytest.mark.parametrize(
    ("configs", "code", "message"),
    [
        ([("retention.ms", None)], ErrorCode.INVALID_REQUEST, "Null value not supported for : retention.ms"),
        (
            [("retention.ms", "1"), ("retention.ms", "2")],
            ErrorCode.INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
        ([("no.such", "1")], ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such"),
        (
            [("leader.replication.throttled.replicas", "0:1," * 9000 + "0:1")],
            ErrorCode.INVALID_CONFIG,
            "The configuration value cannot be added because it exceeds the maximum value size of "
            "32767 bytes.",
        ),
    ],
)
def test_a_whole_set_that_may_not_be(
    configs: list[tuple[str, str | None]], code: ErrorCode, message: str
) -> None:
    assert refusal(lambda: replace_topic(LAYERS, configs)) == (code, message)


def test_the_first_error_is_the_first_in_kafkas_order() -> None:
    configs = {"retention.ms": "abc", "cleanup.policy": "foo", "segment.ms": "0"}
    assert refusal(lambda: validate_topic_overrides(configs)) == (
        ErrorCode.INVALID_CONFIG,
        "Invalid value 0 for configuration segment.ms: Value must be at least 1",
    )


def test_a_topic_must_fit_its_broker() -> None:
    layers = ConfigLayers({"log.cleaner.min.compaction.lag.ms": "10"})
    assert refusal(lambda: validate_topic_overrides({"max.compaction.lag.ms": "5"}, layers)) == (
        ErrorCode.INVALID_CONFIG,
        "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
    )


def test_what_is_stored_is_checked_with_what_comes() -> None:
    changes = [ConfigChange("max.compaction.lag.ms", SET, "5")]
    code, _ = refusal(lambda: alter_topic(LAYERS, {"min.compaction.lag.ms": "10"}, changes))
    assert code == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    "text", ["by_duration:P3D", "by_duration:PT1.5S", "by_duration:pt1h", "by_duration:P1DT2H3M4S"]
)
def test_durations(text: str) -> None:
    assert alter_group(LAYERS, {}, [ConfigChange("share.auto.offset.reset", SET, text)])


@pytest.mark.parametrize("text", ["none", "EARLIEST", "by_duration"])
def test_no_place_to_start(text: str) -> None:
    code, _ = refusal(lambda: alter_group(LAYERS, {}, [ConfigChange("share.auto.offset.reset", SET, text)]))
    assert code == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("text", ["", "x", "-PT1H", "P1Y", "P1DT", "PT", "P", "PT1.5H", "PT1S2", "PT.5S"])
def test_no_durations(text: str) -> None:
    change = ConfigChange("share.auto.offset.reset", SET, f"by_duration:{text}")
    code, _ = refusal(lambda: alter_group(LAYERS, {}, [change]))
    assert code == ErrorCode.INVALID_CONFIG


def test_a_session_outlasts_a_heartbeat() -> None:
    layers = ConfigLayers(
        {
            "group.share.min.session.timeout.ms": "1",
            "group.share.min.heartbeat.interval.ms": "1",
            "group.share.session.timeout.ms": "9000",
        }
    )
    changes = [ConfigChange("share.heartbeat.interval.ms", SET, "9000")]
    assert refusal(lambda: alter_group(layers, {}, changes)) == (
        ErrorCode.INVALID_CONFIG,
        "share.session.timeout.ms must be greater than share.heartbeat.interval.ms",
    )


# -------------------------------------------------------------------------------------------------- brokers


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            [("log.dirs", "/a"), ("node.id", "2")],
            "Cannot update these configs dynamically: [log.dirs, node.id]",
        ),
        ([("num.io.threads", "3")], "value should be at least half the current value 8"),
        ([("log.cleaner.threads", "3")], "cannot be increased to more than double the current value 1"),
        ([("log.cleaner.threads", "0")], "Log cleaner threads should be at least 1"),
        ([("log.roll.ms", "0")], "requirement failed: log.roll.ms must be greater than or equal to 1"),
        ([("max.connections.per.ip", "0")], "max.connections.per.ip can be set to zero only if"),
        ([("max.connections.per.ip.overrides", "a")], "must be host:limit,host:limit, but it is a"),
        (
            [("group.consumer.assignment.interval.ms", "20000")],
            "group.consumer.assignment.interval.ms must be less than or equal to "
            "group.consumer.max.assignment.interval.ms",
        ),
        (
            [("listener.name.x.max.connections", "abc")],
            "Invalid value abc for configuration max.connections: ",
        ),
        ([("leader.replication.throttled.rate", "-1")], "Value must be at least 0"),
    ],
)
@pytest.mark.parametrize("alter", [alter_broker, alter_default_broker])
def test_what_a_running_broker_refuses(
    alter: Callable[[ConfigLayers, list[ConfigChange]], object], changes: list[tuple[str, str]], message: str
) -> None:
    code, text = refusal(lambda: alter(LAYERS, [ConfigChange(name, SET, value) for name, value in changes]))
    assert code == ErrorCode.INVALID_REQUEST
    assert message in (text or "")


def test_configs_of_one_listener() -> None:
    for_one = [ConfigChange("listener.name.x.ssl.keystore.location", SET, "/a")]
    for_all = [ConfigChange("listener.name.x.max.connections", SET, "5")]
    assert alter_broker(LAYERS, for_one)
    assert alter_broker(LAYERS, for_all)
    assert alter_default_broker(LAYERS, for_all)
    _, message = refusal(lambda: alter_default_broker(LAYERS, for_one))
    assert message == (
        "Cannot update these configs at default cluster level, broker id must be specified: "
        "[listener.name.x.ssl.keystore.location]"
    )


def test_lists_of_a_broker() -> None:
    name = "log.cleanup.policy"
    assert alter_broker(LAYERS, [ConfigChange(name, APPEND, "compact")])[name] == "delete,compact"
    assert refusal(lambda: alter_broker(LAYERS, [ConfigChange("num.io.threads", APPEND, "1")])) == (
        ErrorCode.INVALID_CONFIG,
        "Config value append is not allowed for config key: num.io.threads",
    )
    assert refusal(lambda: alter_broker(LAYERS, [ConfigChange("no.such", SUBTRACT, "1")])) == (
        ErrorCode.INVALID_CONFIG,
        "Unknown config name: no.such",
    )


def test_min_insync_replicas_stays_with_the_cluster() -> None:
    one_broker = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
    cluster = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
    configs = [("min.insync.replicas", "2")]
    assert refusal(lambda: alter_broker(LAYERS, [ConfigChange(*configs[0][:1], SET, "2")]))[1] == one_broker
    assert refusal(lambda: replace_broker(LAYERS, configs))[1] == one_broker
    assert refusal(lambda: replace_default_broker(LAYERS, []))[1] == cluster
    assert alter_default_broker(LAYERS, [ConfigChange("min.insync.replicas", SET, "2")]) == dict(configs)


def test_a_broker_keeps_the_listeners_that_it_was_given() -> None:
    layers = LAYERS._replace(broker={"listeners": "PLAINTEXT://:1"})
    assert "listeners" in alter_broker(layers, [ConfigChange("max.connections", SET, "5")])
    assert alter_broker(layers, [ConfigChange("listeners", DELETE)]) == {}


# -------------------------------------------------------------------------------------------------- loggers


def test_levels_in_pythons_numbers() -> None:
    changes = [
        ConfigChange("root", SET, "WARN"),
        ConfigChange("moldau.storage", SET, "TRACE"),
        ConfigChange("moldau", DELETE),
    ]
    assert alter_broker_loggers(changes) == {"root": 30, "moldau.storage": 5, "moldau": None}


@pytest.mark.parametrize("level", ["debug", "FOO", "", None])
def test_a_level_that_does_not_exist(level: str | None) -> None:
    assert refusal(lambda: alter_broker_loggers([ConfigChange("root", SET, level)])) == (
        ErrorCode.INVALID_CONFIG,
        f"Cannot set the log level of root to {level} as it is not a supported log level. "
        "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
    )


@pytest.mark.parametrize(
    "text", ["client_id=a,client_id=b", " client_id = a ", "client_software_name=a,client_source_port=1", ""]
)
def test_which_clients_are_asked(text: str) -> None:
    assert alter_client_metrics({}, [ConfigChange("match", SET, text)]) == {"match": text}


@pytest.mark.parametrize("text", ["client_id", "client_id=a=b", "=a", "client_id="])
def test_no_way_to_ask_clients(text: str) -> None:
    assert refusal(lambda: alter_client_metrics({}, [ConfigChange("match", SET, text)])) == (
        ErrorCode.INVALID_CONFIG,
        f"Illegal client matching pattern: {text}",
    )
