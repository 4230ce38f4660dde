"""OffsetDelete: committed offsets of topics that nobody in the group reads any more."""

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.broker.apis.asking import Ask, open_coordinator, stable_member


def delete(group: str, *topics: str) -> OffsetDeleteRequest:
    first = [OffsetDeleteRequestPartition(0)]
    return OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(name, first) for name in topics])


def test_offsets_are_forgotten_topic_by_topic(ask: Ask) -> None:
    open_coordinator(ask, 0)
    ask.broker.create_topic("orders")
    offsets = [OffsetCommitRequestPartition(0, 5, -1, "")]
    topics = [OffsetCommitRequestTopic("orders", bytes(16), offsets)]
    ask(OffsetCommitRequest("g", -1, "", topics=topics), 9)
    response = ask(delete("g", "orders", "nowhere"))
    assert response.error_code == 0
    assert {topic.name: topic.partitions[0].error_code for topic in response.topics} == {
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "orders": 0,
    }
    (group,) = ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", None, -1, None)]), 9).groups
    assert group.topics == []


def test_a_group_that_is_not_there(ask: Ask) -> None:
    open_coordinator(ask, 0)
    response = ask(delete("nowhere", "orders"))
    assert (response.error_code, response.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


def test_a_group_whose_members_may_read_anything(ask: Ask) -> None:
    """What the member reads is not in the consumer protocol here, so that nothing is known to be unread."""
    ask.broker.create_topic("orders")
    stable_member(ask, "g")
    response = ask(delete("g", "orders"))
    codes = [partition.error_code for topic in response.topics for partition in topic.partitions]
    assert ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC in (response.error_code, *codes)


def test_a_group_without_a_name(ask: Ask) -> None:
    """Kafka 4.3 calls the name wrong, not the group missing."""
    open_coordinator(ask, 0)
    assert ask(delete("")).error_code == ErrorCode.INVALID_GROUP_ID
