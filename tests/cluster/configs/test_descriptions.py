"""Configs as Kafka 4.3.0 shows them, row by row."""

import importlib.util
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from moldau.base.settings import SettingType
from moldau.cluster.configs.broker_configs import BROKER_SETTINGS, broker_setting
from moldau.cluster.configs.broker_settings import load_broker_settings
from moldau.cluster.configs.descriptions import (
    ConfigEntry,
    ConfigSource,
    describe_broker,
    describe_broker_loggers,
    describe_client_metrics,
    describe_default_broker,
    describe_group,
    describe_topic,
)
from moldau.cluster.configs.layers import ConfigLayers, initial_default_broker_configs
from moldau.cluster.configs.listener_settings import PER_LISTENER_SETTINGS
from moldau.cluster.configs.topic_configs import GROUP_SETTINGS, TOPIC_SETTINGS
from moldau.cluster.configs.without_effect import settings_without_effect

TESTS = Path(__file__).parents[2]
TOPIC: dict[str, Any] = json.loads((TESTS / "data" / "topic_configs.json").read_text())
BROKER: dict[str, Any] = json.loads((TESTS / "data" / "broker_configs.json").read_text())

#: The file of the node that the rows come from.
STATIC = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "advertised.listeners": "PLAINTEXT://127.0.0.1:9092",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "DATA",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
LAYERS = ConfigLayers(load_broker_settings(STATIC).static, {"min.insync.replicas": "1"})
HOUR_AND_TWO = LAYERS._replace(
    broker={"log.retention.ms": "3600000"},
    default_broker={"min.insync.replicas": "1", "log.retention.ms": "7200000"},
)


def as_row(entry: ConfigEntry) -> list[Any]:
    synonyms = [[synonym.name, synonym.value, synonym.source.name] for synonym in entry.synonyms]
    row = [
        entry.name,
        entry.value,
        entry.type.name,
        entry.source.name,
        int(entry.read_only),
        int(entry.sensitive),
    ]
    return row if synonyms == [[entry.name, entry.value, "DEFAULT_CONFIG"]] else [*row, synonyms]


def by_name(entries: Iterable[ConfigEntry]) -> dict[str, list[Any]]:
    return {entry.name: as_row(entry) for entry in entries}


@pytest.mark.parametrize("row", TOPIC["describe"], ids=lambda row: row[0])
def test_a_topic_without_configs(row: list[Any]) -> None:
    assert by_name(describe_topic(LAYERS, {}))[row[0]] == row


def test_all_configs_of_a_topic_are_there() -> None:
    assert sorted(by_name(describe_topic(LAYERS, {}))) == [row[0] for row in TOPIC["describe"]]


@pytest.mark.parametrize("row", TOPIC["describe_with_overrides"], ids=lambda row: row[0])
def test_a_topic_with_configs(row: list[Any]) -> None:
    overrides = {"max.message.bytes": "2000000", "retention.ms": "86400000"}
    assert by_name(describe_topic(LAYERS, overrides))[row[0]] == row


@pytest.mark.parametrize("row", BROKER["describe_topic_changed"], ids=lambda row: row[0])
def test_a_topic_over_changed_brokers(row: list[Any]) -> None:
    assert by_name(describe_topic(HOUR_AND_TWO, {}))[row[0]] == row


def test_values_are_shown_as_they_are_understood() -> None:
    overrides = {"retention.ms": " 1000 ", "preallocate": "TRUE", "cleanup.policy": "compact, compact"}
    shown = {entry.name: entry.value for entry in describe_topic(LAYERS, overrides)}
    assert shown["retention.ms"] == "1000"
    assert shown["preallocate"] == "true"
    assert shown["cleanup.policy"] == "compact"


def test_a_value_in_hours_is_in_force_but_not_named() -> None:
    # Kafka's list of synonyms begins with log.retention.ms, which has no value here.
    layers = ConfigLayers({"log.retention.hours": "1"})
    (entry,) = describe_topic(layers, {}, ["retention.ms"])
    assert (entry.value, entry.source, entry.synonyms) == ("3600000", ConfigSource.DEFAULT_CONFIG, ())
    assert entry.is_default


@pytest.mark.parametrize(
    ("names", "found"),
    [(None, 33), ([], 33), (["retention.ms"], 1), (["no.such.config"], 0), (["internal.segment.bytes"], 0)],
)
def test_some_configs_of_a_topic(names: list[str] | None, found: int) -> None:
    assert len(describe_topic(LAYERS, {}, names)) == found


def test_an_internal_config_is_shown_where_it_is_set() -> None:
    (entry,) = describe_topic(LAYERS, {"internal.segment.bytes": "100"}, ["internal.segment.bytes"])
    assert (entry.value, entry.source) == ("100", ConfigSource.DYNAMIC_TOPIC_CONFIG)


# Ours: loopback and a bound on connections by default, no default for what has no effect, two-phase commit
# for those who ask for it.
OWN_ROWS = {"listeners", "controller.quorum.voters", "transaction.two.phase.commit.enable"}
OWN_ROWS |= {"max.connections", "max.connections.per.ip"}
DESCRIBED = [row for row in BROKER["describe_broker"] if row[0] in BROKER_SETTINGS and row[0] not in OWN_ROWS]


def test_a_broker() -> None:
    shown = by_name(describe_broker(LAYERS))
    assert len(DESCRIBED) > 170
    assert [shown[row[0]] for row in DESCRIBED] == DESCRIBED


def test_every_setting_of_kafka_is_known() -> None:
    for name, _, type_name, _, read_only, sensitive, *_ in BROKER["describe_broker"]:
        setting = broker_setting(name)
        assert setting is not None, name
        assert setting.type.name == type_name, name
        assert (setting.dynamic == "static") == bool(read_only), name
        assert setting.sensitive == bool(sensitive), name


def test_a_setting_stands_in_one_list() -> None:
    assert not BROKER_SETTINGS.keys() & settings_without_effect().keys()
    assert BROKER_SETTINGS.keys() > PER_LISTENER_SETTINGS


def test_every_synonym_exists() -> None:
    for table in (TOPIC_SETTINGS, GROUP_SETTINGS, BROKER_SETTINGS):
        for setting in table.values():
            assert all(name in BROKER_SETTINGS for name, _ in setting.synonyms), setting


def test_every_default_is_valid() -> None:
    for table in (TOPIC_SETTINGS, GROUP_SETTINGS, BROKER_SETTINGS):
        for setting in table.values():
            text = setting.render(setting.default)
            assert text is None or setting.parse(text) == setting.default, setting
            assert setting.doc.endswith("."), setting


@pytest.mark.parametrize("row", BROKER["describe_broker_changed"], ids=lambda row: row[0])
def test_a_changed_broker(row: list[Any]) -> None:
    assert by_name(describe_broker(HOUR_AND_TWO))[row[0]] == row


def test_all_brokers() -> None:
    assert list(map(as_row, describe_default_broker(LAYERS))) == BROKER["describe_default_broker"]
    changed = sorted(map(as_row, describe_default_broker(HOUR_AND_TWO)))
    assert changed == BROKER["describe_default_broker_changed"]
    assert describe_default_broker(LAYERS, ["log.retention.ms"]) == []


def test_a_new_cluster_keeps_min_insync_replicas() -> None:
    assert initial_default_broker_configs(ConfigLayers()) == {"min.insync.replicas": "1"}
    assert initial_default_broker_configs(ConfigLayers({"min.insync.replicas": "2"})) == {
        "min.insync.replicas": "2"
    }


@pytest.mark.parametrize(
    "name", ["ssl.keystore.password", "listener.name.x.ssl.keystore.password", "no.such"]
)
def test_secrets_and_what_may_be_one_stay_hidden(name: str) -> None:
    layers = ConfigLayers({name: "secret"}, {name: "secret"}, {name: "secret"})
    for entries in (describe_broker(layers, [name]), describe_default_broker(layers)):
        assert len(entries) == 1
        assert entries[0].sensitive
        assert "secret" not in str(entries)


def test_what_has_no_effect_is_shown_where_it_is_set() -> None:
    (entry,) = describe_broker(LAYERS, ["process.roles"])
    assert (entry.value, entry.type) == ("broker,controller", SettingType.LIST)
    assert describe_broker(ConfigLayers(), ["process.roles"]) == []


def test_a_rate_limit_is_shown_where_it_is_set() -> None:
    name = "leader.replication.throttled.rate"
    assert describe_broker(LAYERS, [name]) == []
    (entry,) = describe_broker(LAYERS._replace(broker={name: "1000"}), [name])
    assert (entry.value, entry.read_only) == ("1000", False)


@pytest.mark.parametrize("row", BROKER["describe_group"], ids=lambda row: row[0])
def test_a_group(row: list[Any]) -> None:
    assert by_name(describe_group(LAYERS, {}))[row[0]] == row


def test_a_group_with_configs() -> None:
    overrides = {"consumer.session.timeout.ms": "50000", "share.auto.offset.reset": "earliest"}
    shown = by_name(describe_group(LAYERS, overrides))
    assert shown["consumer.session.timeout.ms"][3:] == [
        "GROUP_CONFIG",
        0,
        0,
        [
            ["consumer.session.timeout.ms", "50000", "GROUP_CONFIG"],
            ["group.consumer.session.timeout.ms", "45000", "DEFAULT_CONFIG"],
        ],
    ]
    assert shown["share.auto.offset.reset"][6] == [
        ["share.auto.offset.reset", "earliest", "GROUP_CONFIG"],
        ["share.auto.offset.reset", "latest", "DEFAULT_CONFIG"],
    ]
    assert len(describe_group(LAYERS, overrides, ["consumer.session.timeout.ms"])) == 1


def test_a_group_over_a_broker_of_its_own() -> None:
    layers = ConfigLayers({"group.consumer.session.timeout.ms": "50000"})
    (entry,) = describe_group(layers, {}, ["consumer.session.timeout.ms"])
    assert (entry.value, entry.source) == ("50000", ConfigSource.STATIC_BROKER_CONFIG)


def test_client_metrics() -> None:
    rows = sorted(map(as_row, describe_client_metrics({})))
    assert rows == BROKER["describe_client_metrics"]
    rows = sorted(map(as_row, describe_client_metrics({"metrics": "*", "interval.ms": "60000"})))
    assert rows == BROKER["describe_client_metrics_changed"]


def test_loggers() -> None:
    shown = by_name(describe_broker_loggers({"root": 40, "moldau": 20, "moldau.storage": 7}))
    assert shown["root"] == next(row for row in BROKER["describe_broker_loggers"] if row[0] == "root")
    assert [row[1] for row in shown.values()] == ["ERROR", "INFO", "TRACE"]
    assert len(describe_broker_loggers({"root": 40, "moldau": 20}, ["moldau"])) == 1


def test_the_manual_is_up_to_date() -> None:
    script = TESTS.parent / "docs" / "generate_settings.py"
    spec = importlib.util.spec_from_file_location("generate_settings", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.page() == module.PAGE.read_text(encoding="utf-8"), f"run {script.name}"
