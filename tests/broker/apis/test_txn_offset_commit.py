"""TxnOffsetCommit: offsets that count when their transaction commits, and only then."""

import asyncio
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.apis.asking import Ask, new_producer, open_coordinator


def commit(
    identity: tuple[int, int],
    *partitions: int,
    topic: str = "orders",
    transactional_id: str = "t",
    generation: int = -1,
) -> TxnOffsetCommitRequest:
    """Offset 5 for each partition."""
    offsets = [TxnOffsetCommitRequestPartition(index, 5, -1, "") for index in partitions or (0,)]
    topics = [TxnOffsetCommitRequestTopic(topic, offsets)]
    return TxnOffsetCommitRequest(transactional_id, "g", *identity, generation, "", None, topics)


def codes(response: Any) -> dict[int, int]:
    (topic,) = response.topics
    return {each.partition_index: each.error_code for each in topic.partitions}


def committed(ask: Ask) -> list[int]:
    (group,) = ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", None, -1, None)]), 9).groups
    return [each.committed_offset for topic in group.topics for each in topic.partitions]


@pytest.fixture
def identity(ask: Ask) -> tuple[int, int]:
    open_coordinator(ask, 0)
    ask.broker.create_topic("orders")
    return new_producer(ask)


@pytest.mark.parametrize(("result", "expected"), [(True, [5]), (False, [])])
def test_offsets_share_the_fate_of_their_transaction(
    ask: Ask, identity: tuple[int, int], result: bool, expected: list[int]
) -> None:
    assert codes(ask(commit(identity), 5)) == {0: 0}
    assert committed(ask) == []
    assert ask(EndTxnRequest("t", *identity, result), 4).error_code == 0
    assert committed(ask) == expected


def test_before_version_5_the_offsets_are_added_first(ask: Ask, identity: tuple[int, int]) -> None:
    assert codes(ask(commit(identity), 3)) == {0: ErrorCode.INVALID_TXN_STATE}
    assert codes(ask(commit(identity), 4)) == {0: ErrorCode.TRANSACTION_ABORTABLE}
    assert ask(AddOffsetsToTxnRequest("t", *identity, "g")).error_code == 0
    assert codes(ask(commit(identity), 3)) == {0: 0}


def test_what_does_not_exist_is_refused_one_by_one(ask: Ask, identity: tuple[int, int]) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(ask(commit(identity, 0, 9), 5)) == {0: 0, 9: unknown}
    assert codes(ask(commit(identity, topic="nowhere"), 5)) == {0: unknown}


def test_who_is_refused(ask: Ask, identity: tuple[int, int]) -> None:
    nameless = ask(commit(identity, transactional_id=""), 5)
    assert codes(nameless) == {0: ErrorCode.INVALID_REQUEST}
    assert codes(ask(commit(identity, generation=3), 5)) == {0: ErrorCode.ILLEGAL_GENERATION}


def test_an_owner_of_the_past_is_fenced(ask: Ask, identity: tuple[int, int]) -> None:
    new_producer(ask)
    assert codes(ask(commit(identity), 5)) == {0: ErrorCode.INVALID_PRODUCER_EPOCH}


def test_a_commit_that_was_admitted_to_a_transaction_that_has_ended_since(
    ask: Ask, identity: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its offsets would be open for ever: nobody ends that transaction once more."""
    services = ask.broker.node.services
    place = TopicPartition("__consumer_offsets", services.groups.partition_for("g"))

    async def question() -> "asyncio.Future[Any]":
        return asyncio.get_running_loop().create_future()

    async def end_and_admit() -> None:
        services.transactions.markers.write(place, *identity, True, 0)
        asked.set_result({place: ErrorCode.NONE})

    asked = ask.broker.run(question())
    monkeypatch.setattr(services.transactions, "admit", lambda *who, adds: asked)
    waiting = ask.later(commit(identity), 4)
    assert waiting.waits
    ask.broker.run(end_and_admit())
    assert codes(waiting.response()) == {0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    stable = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", None, -1, None)], require_stable=True)
    assert ask(stable, 9).groups[0].topics == []
