"""Between the values of ``groups`` and the messages of the protocol.

Pure functions: a value in and a message out or the reverse; nothing here sends. Bytes of members
that are not those of a consumer are shown as no topics and no partitions.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from moldau.base.names import TopicPartition, by_topic
from moldau.client.groups.descriptions import (
    CLASSIC,
    CONSUMER,
    CONSUMER_PROTOCOL,
    CommittedOffset,
    GroupDescription,
    GroupMember,
)
from moldau.client.transport.cluster import Broker
from moldau.protocol import consumer_protocol
from moldau.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
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
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from moldau.protocol.primitives import MalformedMessage


def offset_fetch_request(
    group_id: str, partitions: Iterable[TopicPartition] | None, require_stable: bool
) -> OffsetFetchRequest:
    """For every version that names topics."""
    topics = None if partitions is None else by_topic(partitions)
    if topics is None:
        group = OffsetFetchRequestGroup(group_id=group_id, topics=None)
        old: list[OffsetFetchRequestTopic] | None = None
    else:
        named = [OffsetFetchRequestTopics(name=t, partition_indexes=p) for t, p in topics.items()]
        group = OffsetFetchRequestGroup(group_id=group_id, topics=named)
        old = [OffsetFetchRequestTopic(name=t, partition_indexes=p) for t, p in topics.items()]
    return OffsetFetchRequest(group_id=group_id, topics=old, groups=[group], require_stable=require_stable)


def commit_request(
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    generation_id: int = -1,
    member_id: str = "",
    group_instance_id: str | None = None,
) -> OffsetCommitRequest:
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, partition), committed in offsets.items():
        entry = topics.setdefault(topic, OffsetCommitRequestTopic(name=topic, partitions=[]))
        entry.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=list(topics.values()),
    )


def delete_offsets_request(group_id: str, partitions: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    topics = [
        OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(index) for index in indexes])
        for name, indexes in by_topic(partitions).items()
    ]
    return OffsetDeleteRequest(group_id=group_id, topics=topics)


def classic_description(group: Any, coordinator: Broker) -> GroupDescription:
    """From a group of DescribeGroups."""
    consumers = group.protocol_type == CONSUMER_PROTOCOL
    return GroupDescription(
        group_id=group.group_id,
        group_type=CLASSIC,
        state=group.group_state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        members=tuple(_classic_member(member, consumers) for member in group.members),
        coordinator=coordinator,
    )


def _classic_member(member: Any, is_consumer: bool) -> GroupMember:
    subscription = _subscription(member.member_metadata) if is_consumer else None
    return GroupMember(
        member_id=member.member_id,
        client_id=member.client_id,
        client_host=member.client_host,
        group_instance_id=member.group_instance_id,
        subscribed_topics=() if subscription is None else tuple(subscription.topics),
        assignment=assigned_partitions(member.member_assignment) if is_consumer else (),
        user_data=b"" if subscription is None else bytes(subscription.user_data or b""),
    )


def _subscription(metadata: bytes) -> ConsumerProtocolSubscription | None:
    try:
        return consumer_protocol.read(ConsumerProtocolSubscription, bytes(metadata))
    except MalformedMessage:
        return None


def assigned_partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    """The partitions that the bytes of an assignment name; none where they are no assignment."""
    if not assignment:
        return ()
    try:
        found = consumer_protocol.read(ConsumerProtocolAssignment, bytes(assignment))
    except MalformedMessage:
        return ()
    return tuple(TopicPartition(t.topic, p) for t in found.assigned_partitions for p in t.partitions)


def consumer_description(group: Any, coordinator: Broker) -> GroupDescription:
    """From a group of ConsumerGroupDescribe."""
    return GroupDescription(
        group_id=group.group_id,
        group_type=CONSUMER,
        state=group.group_state,
        protocol_type=CONSUMER_PROTOCOL,
        assignor=group.assignor_name,
        members=tuple(_consumer_member(member) for member in group.members),
        coordinator=coordinator,
        group_epoch=group.group_epoch,
        target_assignment_epoch=group.assignment_epoch,
    )


def _consumer_member(member: Any) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        client_id=member.client_id,
        client_host=member.client_host,
        group_instance_id=member.instance_id,
        subscribed_topics=tuple(member.subscribed_topic_names),
        assignment=_named_partitions(member.assignment),
        member_epoch=member.member_epoch,
        target_assignment=_named_partitions(member.target_assignment),
        upgraded=None if member.member_type < 0 else member.member_type == 1,
    )


def _named_partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(each.topic_name, index)
        for each in assignment.topic_partitions
        for index in each.partitions
    )
