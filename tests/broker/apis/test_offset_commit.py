"""OffsetCommit: a group's progress, partition by partition."""

from typing import Any

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.broker.apis.asking import NOWHERE, Ask, open_coordinator, stable_member


def commit(
    group: str = "g",
    topic: str | bytes = "orders",
    *partitions: int,
    generation: int = -1,
    member: str = "",
    metadata: str = "note",
) -> OffsetCommitRequest:
    """Offset 5 for each partition."""
    offsets = [OffsetCommitRequestPartition(index, 5, -1, metadata) for index in partitions or (0,)]
    name, topic_id = (topic, bytes(16)) if isinstance(topic, str) else ("", topic)
    return OffsetCommitRequest(
        group, generation, member, topics=[OffsetCommitRequestTopic(name, topic_id, offsets)]
    )


def codes(response: Any) -> dict[int, int]:
    (topic,) = response.topics
    return {each.partition_index: each.error_code for each in topic.partitions}


def committed(ask: Ask, partition: int = 0) -> tuple[int, str | None]:
    asked = OffsetFetchRequestTopics("orders", bytes(16), [partition])
    response = ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", None, -1, [asked])]), 9)
    (found,) = response.groups[0].topics[0].partitions
    return found.committed_offset, found.metadata


@pytest.fixture(autouse=True)
def filled(ask: Ask) -> None:
    open_coordinator(ask, 0)
    ask.broker.create_topic("orders", 2)


def test_a_consumer_without_a_group_of_members(ask: Ask) -> None:
    assert codes(ask(commit(), 9)) == {0: 0}
    assert committed(ask) == (5, "note")


def test_what_does_not_exist_is_refused_one_by_one(ask: Ask) -> None:
    assert codes(ask(commit("g", "orders", 0, 9), 9)) == {0: 0, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert committed(ask) == (5, "note")
    assert codes(ask(commit("g", "nowhere"), 9)) == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_topics_go_by_id_from_version_10(ask: Ask) -> None:
    topic_id = ask.topic_id("orders")
    response = ask(commit("g", topic_id), 10)
    assert response.topics[0].topic_id == topic_id
    assert (codes(response), committed(ask)) == ({0: 0}, (5, "note"))
    assert codes(ask(commit("g", NOWHERE), 10)) == {0: ErrorCode.UNKNOWN_TOPIC_ID}
    missing = ask(commit("g", topic_id, 9), 10)
    assert codes(missing) == {9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_members_commit_in_their_generation(ask: Ask) -> None:
    member = stable_member(ask, "g")
    assert codes(ask(commit(generation=1, member=member), 9)) == {0: 0}
    assert codes(ask(commit(generation=9, member=member), 9)) == {0: ErrorCode.ILLEGAL_GENERATION}
    assert codes(ask(commit(generation=1, member="stranger"), 9)) == {0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert codes(ask(commit(), 9)) == {0: ErrorCode.UNKNOWN_MEMBER_ID}, "nobody commits beside its members"


def test_metadata_that_is_too_large(ask: Ask) -> None:
    refused = ask(commit(metadata="x" * 5000), 9)
    assert codes(refused) == {0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert committed(ask) == (-1, "")
