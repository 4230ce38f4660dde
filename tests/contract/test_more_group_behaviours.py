"""Groups and transactions beyond the captured cases: odd requests, and more than fits into one batch.

Where Kafka is named, a real 4.3.0 was asked the same.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from moldau.protocol.messages.delete_topics import DeleteTopicsRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.list_transactions import ListTransactionsRequest
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.testing import Broker
from tests.contract.members import (
    beat,
    commit,
    delete,
    describe_consumers,
    fetch,
    first_beat,
    list_groups,
    open_coordinator,
)
from tests.contract.replays.transactions import Producer
from tests.contract.scene import REAL_NODE, UNKNOWN_ID, Scene

WIDE = 300


@pytest.fixture
def scene() -> Iterator[Scene]:
    # Batches of the internal topics are as small as anybody's.
    with Broker({**REAL_NODE, "message.max.bytes": "2000"}) as broker:
        made = Scene(broker)
        open_coordinator(made, 0)
        open_coordinator(made, 1)
        made.create("b1")
        made.create("tx1")
        yield made
        made.close()


def commit_everywhere(scene: Scene, group: str, topic: str = "wide") -> None:
    for first in range(0, WIDE, 10):
        offsets = [OffsetCommitRequestPartition(index, 7, -1, "") for index in range(first, first + 10)]
        request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, bytes(16), offsets)])
        (answered,) = scene.ask(request, 9)["Topics"]
        assert {each["ErrorCode"] for each in answered["Partitions"]} == {0}


def committed(scene: Scene, group: str) -> int:
    (found,) = fetch(scene, group)
    return sum(len(topic["Partitions"]) for topic in found["Topics"])


def test_a_group_with_more_offsets_than_fit_into_a_batch_is_deleted(scene: Scene) -> None:
    scene.create("wide", WIDE)
    commit_everywhere(scene, "g")
    assert committed(scene, "g") == WIDE
    assert delete(scene, "g")["Results"] == [{"GroupId": "g", "ErrorCode": 0}]
    assert committed(scene, "g") == 0
    assert list_groups(scene)["Groups"] == []


def test_a_topic_with_more_offsets_than_fit_into_a_batch_is_deleted(scene: Scene) -> None:
    scene.create("wide", WIDE)
    commit_everywhere(scene, "g")
    commit(scene, "g")
    deleted = scene.ask(DeleteTopicsRequest(topic_names=["wide"], timeout_ms=5000), 5)
    assert deleted["Responses"][0]["ErrorCode"] == 0
    scene.create("wide", WIDE)
    assert committed(scene, "g") == 1


def test_as_many_offsets_are_committed_at_once_as_a_topic_has(scene: Scene) -> None:
    scene.create("wide", WIDE)
    offsets = [OffsetCommitRequestPartition(index, 7, -1, "") for index in range(WIDE)]
    request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("wide", bytes(16), offsets)])
    (answered,) = scene.ask(request, 9)["Topics"]
    assert {each["ErrorCode"] for each in answered["Partitions"]} == {0}
    assert committed(scene, "g") == WIDE


@pytest.mark.slow
def test_a_target_that_does_not_fit_into_a_batch(scene: Scene) -> None:
    members = [f"member-{number}" for number in range(60)]
    for member in members:
        assert first_beat(scene, "g", member, "later")["ErrorCode"] == 0
    scene.create("later", len(members))
    scene.broker.clock.advance(1.0)
    owned = []
    for member in members:
        epoch = described_epoch(scene, member)
        answer = beat(scene, "g", member, epoch, owned=[])
        assert answer["ErrorCode"] == 0
        owned += [index for topic in answer["Assignment"]["TopicPartitions"] for index in topic["Partitions"]]
    assert sorted(owned) == list(range(len(members)))


def described_epoch(scene: Scene, member_id: str) -> int:
    (group,) = describe_consumers(scene, "g")["Groups"]
    (epoch,) = (each["MemberEpoch"] for each in group["Members"] if each["MemberId"] == member_id)
    return int(epoch)


@pytest.mark.parametrize(
    ("configured", "supported"),
    [
        ("range", "range"),
        ("org.apache.kafka.coordinator.group.assignor.RangeAssignor,uniform", "range, uniform"),
    ],
)
def test_assignors_that_are_configured(configured: str, supported: str) -> None:
    with Broker({**REAL_NODE, "group.consumer.assignors": configured}) as broker:
        scene = Scene(broker)
        open_coordinator(scene)
        refused = first_beat(scene, "g", "m", "b1", server_assignor="foo")
        assert refused["ErrorMessage"] == (
            f"ServerAssignor foo is not supported. Supported assignors: {supported}."
        )
        assert first_beat(scene, "g", "m", "b1")["ErrorCode"] == 0
        (group,) = describe_consumers(scene, "g")["Groups"]
        assert group["AssignorName"] == supported.partition(",")[0]
        scene.close()


# --- patterns of transactional ids --------------------------------------------------------------


def listed(scene: Scene, pattern: str) -> Any:
    answer = scene.ask(ListTransactionsRequest([], [], -1, pattern), 2)
    return answer["ErrorCode"] or sorted(each["TransactionalId"] for each in answer["TransactionStates"])


def test_patterns_of_transactional_ids_are_those_of_re2(scene: Scene) -> None:
    for name in ("pay-1", "pay-ü", "a" * 200):
        Producer(scene, name).init()
    assert listed(scene, "pay-.") == ["pay-1", "pay-ü"]
    assert listed(scene, "ay-1") == []  # the whole of it
    assert listed(scene, "(?i)PAY-\\pL") == ["pay-ü"]
    assert listed(scene, "(a+)+b") == []  # and at once
    for broken in ("(", "(a)\\1", "(?=a)"):
        assert listed(scene, broken) == 128


def test_a_refused_request_costs_no_producer_id(scene: Scene) -> None:
    first = scene.ask(InitProducerIdRequest(None, 1000), 5)["ProducerId"]
    assert Producer(scene, "t", 0).init()["ErrorCode"] == 50
    assert Producer(scene, "t", 900_001).init()["ErrorCode"] == 50
    assert Producer(scene, "t").init()["ProducerId"] == first + 1


# --- commits that are refused in part -----------------------------------------------------------


def txn_commit(scene: Scene, name: str, *topics: tuple[str, list[int]], version: int = 5) -> Any:
    asked = [
        TxnOffsetCommitRequestTopic(
            topic, [TxnOffsetCommitRequestPartition(index, 3, -1, "") for index in indexes]
        )
        for topic, indexes in topics
    ]
    answer = scene.ask(TxnOffsetCommitRequest(name, "g", 999, 0, -1, "", None, asked), version)
    return {
        (topic["Name"], each["PartitionIndex"]): each["ErrorCode"]
        for topic in answer["Topics"]
        for each in topic["Partitions"]
    }


@pytest.mark.parametrize("version", [3, 4, 5])
def test_an_unknown_partition_is_named_before_anything_else_is_asked(scene: Scene, version: int) -> None:
    assert txn_commit(scene, "t", ("nope", [0]), ("b1", [9]), version=version) == {
        ("nope", 0): 3,
        ("b1", 9): 3,
    }
    # Nobody has this id.
    assert txn_commit(scene, "t", ("nope", [0]), ("b1", [0]), version=version) == {
        ("nope", 0): 3,
        ("b1", 0): 49,
    }
    assert txn_commit(scene, "", ("nope", [0]), version=version) == {("nope", 0): 42}


def test_every_partition_is_answered_when_the_group_refuses() -> None:
    with Broker(REAL_NODE) as broker:
        scene = Scene(broker)
        scene.create("b1")
        offsets = [OffsetCommitRequestPartition(index, 1, -1, "") for index in (0, 9)]
        # Nobody has looked for a coordinator yet, so that there is none.
        answer = scene.ask(
            OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("b1", bytes(16), offsets)]), 9
        )
        (topic,) = answer["Topics"]
        assert [(each["PartitionIndex"], each["ErrorCode"]) for each in topic["Partitions"]] == [
            (0, 15),
            (9, 3),
        ]
        scene.close()


def test_a_commit_by_an_unknown_id_is_answered_by_it(scene: Scene) -> None:
    (topic,) = commit(scene, "g", topic=UNKNOWN_ID, version=10)
    assert topic == {
        "TopicId": "AAAAAAAAAAAAAAAAAAAAAQ",
        "Partitions": [{"PartitionIndex": 0, "ErrorCode": 100}],
    }
