"""CreateTopics: each topic is decided alone, and what was created is ready for use."""

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.broker.apis.asking import Ask

DYNAMIC_TOPIC_CONFIG, DEFAULT_CONFIG = 1, 5


def test_a_topic_with_partitions_and_configs(ask: Ask) -> None:
    wanted = CreatableTopic("orders", 3, 1, configs=[CreatableTopicConfig("retention.ms", "1000")])
    (result,) = ask(CreateTopicsRequest([wanted])).topics
    assert (result.error_code, result.name, result.num_partitions, result.replication_factor) == (
        0,
        "orders",
        3,
        1,
    )
    assert result.topic_id == ask.topic_id("orders")
    configs = {each.name: each for each in result.configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == (
        "1000",
        DYNAMIC_TOPIC_CONFIG,
    )
    assert configs["cleanup.policy"].config_source == DEFAULT_CONFIG
    assert ask.broker.produce("orders", "v", partition=2) == 0, "it is led and ready"


def test_the_brokers_defaults(ask: Ask) -> None:
    (result,) = ask(CreateTopicsRequest([CreatableTopic("orders", -1, -1)])).topics
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 1, 1)


def test_configs_come_with_version_5(ask: Ask) -> None:
    (result,) = ask(CreateTopicsRequest([CreatableTopic("orders", 1, 1)]), 4).topics
    assert result.error_code == 0
    assert not result.configs


def test_chosen_replicas(ask: Ask) -> None:
    chosen = [CreatableReplicaAssignment(index, [1]) for index in range(2)]
    (result,) = ask(CreateTopicsRequest([CreatableTopic("orders", -1, -1, chosen)])).topics
    assert (result.error_code, result.num_partitions) == (0, 2)
    elsewhere = [CreatableReplicaAssignment(0, [7])]
    (result,) = ask(CreateTopicsRequest([CreatableTopic("others", -1, -1, elsewhere)])).topics
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_one_that_is_refused_spoils_no_other(ask: Ask) -> None:
    ask.broker.create_topic("there")
    bad = CreatableTopicConfig("retention.ms", "soon")
    endless = "x" * 32_760  # to be named in an answer's message, which has no room for it
    wanted = [
        CreatableTopic("there", 1, 1),
        CreatableTopic("no spaces", 1, 1),
        CreatableTopic(endless, 1, 1),
        CreatableTopic("none", 0, 1),
        CreatableTopic("many", 1, 2),
        CreatableTopic("bad", 1, 1, configs=[bad]),
        CreatableTopic("good", 1, 1),
    ]
    results = ask(CreateTopicsRequest(wanted)).topics
    assert {each.name: each.error_code for each in results} == {
        "there": ErrorCode.TOPIC_ALREADY_EXISTS,
        "no spaces": ErrorCode.INVALID_TOPIC_EXCEPTION,
        endless: ErrorCode.INVALID_TOPIC_EXCEPTION,
        "none": ErrorCode.INVALID_PARTITIONS,
        "many": ErrorCode.INVALID_REPLICATION_FACTOR,
        "bad": ErrorCode.INVALID_CONFIG,
        "good": 0,
    }
    assert all(each.error_message for each in results if each.error_code)
    assert ask.broker.topics() == ["good", "there"]


def test_a_name_that_stands_twice_is_answered_once(ask: Ask) -> None:
    (result,) = ask(CreateTopicsRequest([CreatableTopic("orders", 1, 1)] * 2)).topics
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert ask.broker.topics() == []


@pytest.mark.parametrize(("name", "code"), [("orders", 0), ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION)])
def test_to_validate_only_creates_nothing(ask: Ask, name: str, code: int) -> None:
    (result,) = ask(CreateTopicsRequest([CreatableTopic(name, 2, 1)], validate_only=True)).topics
    assert result.error_code == code
    assert ask.broker.topics() == []
