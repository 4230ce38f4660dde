"""Requests and answers about groups, as values in and values out."""

from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.client.groups import messages
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.transport.cluster import Broker
from moldau.protocol import consumer_protocol
from moldau.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from moldau.protocol.messages import consumer_group_describe, describe_groups

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
COORDINATOR = Broker(1, "h", 9092, None)


def test_partitions_by_topic() -> None:
    assert messages.by_topic([A1, B0, A0]) == {"a": [1, 0], "b": [0]}


def test_offsets_are_asked_for_in_both_forms_of_the_request() -> None:
    request = messages.offset_fetch_request("g", [A0, B0], True)
    assert [(each.name, each.partition_indexes) for each in request.topics or ()] == [("a", [0]), ("b", [0])]
    (group,) = request.groups
    assert [each.name for each in group.topics or ()] == ["a", "b"]
    assert (request.group_id, group.group_id, request.require_stable) == ("g", "g", True)
    everything = messages.offset_fetch_request("g", None, False)
    assert (everything.topics, everything.groups[0].topics) == (None, None)


def test_a_commit() -> None:
    offsets = {A0: CommittedOffset(5, 2, "note"), A1: CommittedOffset(6)}
    request = messages.commit_request("g", offsets, generation_id=3, member_id="m")
    (topic,) = request.topics
    assert [
        (p.partition_index, p.committed_offset, p.committed_leader_epoch, p.committed_metadata)
        for p in topic.partitions
    ] == [(0, 5, 2, "note"), (1, 6, -1, "")]
    assert (request.generation_id_or_member_epoch, request.member_id) == (3, "m")


def test_offsets_to_forget() -> None:
    request = messages.delete_offsets_request("g", [A0, A1, B0])
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in request.topics] == [
        ("a", [0, 1]),
        ("b", [0]),
    ]


def member(metadata: bytes, assignment: bytes) -> describe_groups.DescribedGroupMember:
    return describe_groups.DescribedGroupMember("m", None, "c", "/h", metadata, assignment)


def described(protocol_type: str, one: Any) -> Any:
    group = describe_groups.DescribedGroup(
        group_id="g", group_state="Stable", protocol_type=protocol_type, protocol_data="range", members=[one]
    )
    return messages.classic_description(group, COORDINATOR)


@pytest.fixture
def consumer() -> Any:
    subscription = ConsumerProtocolSubscription(topics=["a"], user_data=b"mine")
    assignment = ConsumerProtocolAssignment([consumer_protocol.TopicPartition("a", [0, 1])])
    return member(consumer_protocol.write(subscription), consumer_protocol.write(assignment))


def test_a_classic_group_of_consumers(consumer: Any) -> None:
    group = described("consumer", consumer)
    (found,) = group.members
    assert (group.state, group.assignor, group.coordinator) == ("Stable", "range", COORDINATOR)
    assert (found.subscribed_topics, found.assignment, found.user_data) == (("a",), (A0, A1), b"mine")
    assert found.member_epoch is None


def test_bytes_that_are_not_those_of_a_consumer(consumer: Any) -> None:
    (worker,) = described("connect", consumer).members
    assert (worker.subscribed_topics, worker.assignment) == ((), ())
    (broken,) = described("consumer", member(b"\0", b"\0\1\xff")).members
    assert (broken.subscribed_topics, broken.assignment) == ((), ())


def test_a_consumer_group() -> None:
    assigned = consumer_group_describe.Assignment(
        [consumer_group_describe.TopicPartitions(bytes(16), "a", [0])]
    )
    one = consumer_group_describe.Member(
        member_id="m", member_epoch=4, subscribed_topic_names=["a"], assignment=assigned, member_type=0
    )
    group = consumer_group_describe.DescribedGroup(
        group_id="g", group_state="Stable", group_epoch=4, assignment_epoch=4, assignor_name="uniform"
    )
    group.members = [one]
    found = messages.consumer_description(group, COORDINATOR)
    assert (found.group_type, found.group_epoch, found.assignor) == ("Consumer", 4, "uniform")
    (first,) = found.members
    assert (first.assignment, first.target_assignment, first.member_epoch) == ((A0,), (), 4)
    assert first.upgraded is False, "it still speaks the classic protocol"
