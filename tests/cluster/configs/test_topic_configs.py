"""Configs of topics, groups and client metrics: what a value may be, and which contradict each other."""

from typing import Any

import pytest

from moldau.cluster.configs.broker_configs import BROKER_SETTINGS
from moldau.cluster.configs.topic_configs import (
    BROKER_LOGGERS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
    check_group_values,
    check_topic_values,
    is_duration,
    log_level_name,
    parse_client_match,
)
from moldau.protocol.errors import ErrorCode, KafkaError


def test_every_setting_has_a_name_and_a_sentence() -> None:
    for table in (TOPIC_SETTINGS, GROUP_SETTINGS):
        for setting in table.values():
            assert setting.doc, setting.name
            assert setting.name == setting.name.lower()


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("PT15M", True),
        ("P1D", True),
        ("P1DT2H3.5S", True),
        ("PT", False),
        ("P", False),
        ("15m", False),
        ("", False),
    ],
)
def test_durations_as_java_writes_them(text: str, valid: bool) -> None:
    assert is_duration(text) is valid


def test_values_that_contradict_each_other() -> None:
    values = {name: setting.default for name, setting in TOPIC_SETTINGS.items()}
    check_topic_values(values)
    for bad in ({"min.compaction.lag.ms": 10, "max.compaction.lag.ms": 5}, {"remote.storage.enable": True}):
        with pytest.raises(KafkaError) as refused:
            check_topic_values({**values, **bad})
        assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_a_groups_values_stay_within_the_brokers_bounds() -> None:
    def broker_value(name: str) -> Any:
        setting = BROKER_SETTINGS.get(name)
        return None if setting is None else setting.default

    check_group_values({"consumer.session.timeout.ms": 50_000}, broker_value)
    for bad in (
        {"consumer.session.timeout.ms": 1},
        {"consumer.session.timeout.ms": 10**9},
        {"consumer.session.timeout.ms": 46_000, "consumer.heartbeat.interval.ms": 10**9},
    ):
        with pytest.raises(KafkaError, match="must be"):
            check_group_values(bad, broker_value)


def test_names_of_log_levels() -> None:
    assert [log_level_name(level) for level in (10, 20, 30, 40, 50)] == [
        "DEBUG",
        "INFO",
        "WARN",
        "ERROR",
        "FATAL",
    ]
    assert log_level_name(25) == "INFO"
    assert "root" in BROKER_LOGGERS


def test_patterns_that_choose_clients() -> None:
    assert parse_client_match(("client_id=a.*", "client_software_name=java")) == {
        "client_id": "a.*",
        "client_software_name": "java",
    }
    for bad in ("client_id", "planet=earth", "client_id=(", "client_id=a=b"):
        with pytest.raises(KafkaError, match="Illegal client matching pattern"):
            parse_client_match((bad,))
