"""Metadata: brokers, topics by name and by id, and topics that come to life by being asked for."""

import pytest

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.testing import Broker
from tests.broker.apis.asking import NOWHERE, Ask, open_coordinator

NOT_ASKED = -2147483648


def named(*names: str, create: bool = False) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=name) for name in names], create)


def test_the_cluster(ask: Ask) -> None:
    response = ask(named())
    (broker,) = response.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, *ask.broker.node.address())
    assert response.controller_id == 1
    assert response.cluster_id == ask.broker.node.services.cluster_id
    assert response.topics == []


def test_a_topic_by_name(ask: Ask) -> None:
    ask.broker.create_topic("orders", 2)
    (topic,) = ask(named("orders")).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (0, "orders", ask.topic_id("orders"))
    assert not topic.is_internal
    assert [
        (each.partition_index, each.leader_id, each.leader_epoch, each.replica_nodes, each.isr_nodes)
        for each in topic.partitions
    ] == [(0, 1, 0, [1], [1]), (1, 1, 0, [1], [1])]
    assert topic.partitions[0].offline_replicas == []


def test_a_topic_by_id(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    wanted = [MetadataRequestTopic(ask.topic_id("orders"), None), MetadataRequestTopic(NOWHERE, None)]
    found, missing = ask(MetadataRequest(wanted, False), 12).topics
    assert (found.error_code, found.name) == (0, "orders")
    assert (missing.error_code, missing.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, NOWHERE)


def test_topics_are_told_although_another_cannot_be_created(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No controller is reached, or its store does not work: what is there is there all the same."""
    ask.broker.create_topic("orders")

    async def refuse(decide: object, **options: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    monkeypatch.setattr(ask.broker.node.metadata, "submit", refuse)
    found, *missing = ask(named("orders", "new", "newer", create=True)).topics
    assert (found.error_code, len(found.partitions)) == (0, 1)
    assert [each.error_code for each in missing] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2


@pytest.mark.parametrize("version", [10, 11])
def test_ids_that_came_before_their_time(ask: Ask, version: int) -> None:
    wanted = [MetadataRequestTopic(NOWHERE, "orders")]
    (topic,) = ask(MetadataRequest(wanted, False), version).topics
    assert topic.error_code == ErrorCode.INVALID_REQUEST


def test_all_topics(ask: Ask) -> None:
    for name in ("a", "b"):
        ask.broker.create_topic(name)
    assert {topic.name for topic in ask(MetadataRequest(None)).topics} == {"a", "b"}
    assert {topic.name for topic in ask(named(), 0).topics} == {"a", "b"}, "in version 0 none means all"
    assert ask(named(), 1).topics == []


def test_internal_topics_are_marked(ask: Ask) -> None:
    open_coordinator(ask, 0)
    (topic,) = ask(named("__consumer_offsets")).topics
    assert topic.is_internal


def test_a_topic_that_is_named_twice_is_answered_once(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    assert len(ask(named("orders", "orders")).topics) == 1


def test_a_topic_is_created_when_both_sides_allow_it(ask: Ask) -> None:
    (topic,) = ask(named("orders")).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask.broker.topics() == []
    (topic,) = ask(named("orders", create=True)).topics
    assert (topic.error_code, len(topic.partitions)) == (0, 1)
    assert ask.broker.topics() == ["orders"]


def test_a_request_creates_so_many_topics_and_the_next_one_goes_on() -> None:
    names = [MetadataRequestTopic(name=f"t{number}") for number in range(5)]
    with Broker({"moldau.auto.create.topics.max": 2}) as broker:
        ask = Ask(broker)
        for missing in (3, 1, 0):
            answer = ask(MetadataRequest(names, allow_auto_topic_creation=True))
            codes = [topic.error_code for topic in answer.topics]
            assert codes.count(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == missing
            assert codes.count(0) == 5 - missing


def test_a_bad_name_is_not_created(ask: Ask) -> None:
    (topic,) = ask(named("no spaces", create=True)).topics
    assert (topic.error_code, topic.name) == (ErrorCode.INVALID_TOPIC_EXCEPTION, "no spaces")


def test_operations_are_told_when_asked_for(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    silent = ask(named("orders"), 8)
    assert silent.cluster_authorized_operations == NOT_ASKED
    assert silent.topics[0].topic_authorized_operations == NOT_ASKED
    request = named("orders")
    request.include_cluster_authorized_operations = request.include_topic_authorized_operations = True
    told = ask(request, 8)
    assert told.cluster_authorized_operations & 1 << 8, "describe"
    assert told.topics[0].topic_authorized_operations & 1 << 3, "read"


def test_the_broker_may_forbid_creation() -> None:
    with Broker({"auto.create.topics.enable": False}) as broker:
        (topic,) = Ask(broker)(named("orders", create=True)).topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert broker.topics() == []
