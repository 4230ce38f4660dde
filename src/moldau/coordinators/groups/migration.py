"""Online migration of a group with members between the classic and the consumer protocol.

A classic group is upgraded when the first member with the consumer protocol joins it; the other members keep
using the classic protocol. When the last member with the consumer protocol leaves, the group is downgraded
and rebalances. ``group.consumer.migration.policy`` says which direction is allowed.

Invariant: a migration is one operation. Requests that wait in the old group are told to rejoin.
"""

from collections.abc import Iterable
from typing import Any

from moldau.coordinators.groups.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, Member
from moldau.coordinators.groups.classic.group import session_timer as classic_session_timer
from moldau.coordinators.groups.classic.rebalance import refuse_join, refuse_sync
from moldau.coordinators.groups.consumer import records
from moldau.coordinators.groups.consumer.assignors import Partition, Partitions
from moldau.coordinators.groups.consumer.cluster_view import ClusterView
from moldau.coordinators.groups.consumer.group import ConsumerGroup
from moldau.coordinators.groups.consumer.group_update import GroupUpdate, session_timer
from moldau.coordinators.groups.consumer.member import ConsumerMember
from moldau.coordinators.groups.environment import GroupSettings
from moldau.coordinators.groups.operation import Operation
from moldau.coordinators.groups.records import GroupMember, GroupMetadata
from moldau.protocol import consumer_protocol
from moldau.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.primitives import MalformedMessage

UPGRADE_POLICIES = ("upgrade", "bidirectional")
DOWNGRADE_POLICIES = ("downgrade", "bidirectional")


def downgraded_timer(group_id: str) -> tuple[str, str]:
    return ("downgraded", group_id)


# --- subscriptions and assignments of classic members -------------------------------------------


def subscription_of(metadata: bytes) -> ConsumerProtocolSubscription:
    """The subscription in a classic member's metadata; KafkaError when it is malformed."""
    try:
        return consumer_protocol.read(ConsumerProtocolSubscription, metadata)
    except MalformedMessage as error:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"not a subscription: {error}") from None


def partitions_of(cluster: ClusterView, topics: Iterable[TopicPartition]) -> Partitions:
    """Partitions by topic id; topics that do not exist are left out."""
    found: set[Partition] = set()
    for named in topics:
        topic = cluster.topics.by_name(named.topic)
        if topic is not None:
            found.update((topic.topic_id, index) for index in named.partitions)
    return frozenset(found)


def assignment_bytes(cluster: ClusterView, partitions: Iterable[Partition], metadata: bytes) -> bytes:
    """An assignment for a classic member, in the same version as its metadata."""
    named = []
    for topic_id, indexes in records.by_topic(partitions).items():
        topic = cluster.topics.by_id(topic_id)
        if topic is not None:
            named.append(TopicPartition(topic.name, indexes))
    version = min(max(int.from_bytes(metadata[:2], "big", signed=True), 0), 3)
    return consumer_protocol.write(ConsumerProtocolAssignment(named), version)


# --- classic to consumer ------------------------------------------------------------------------


def check_upgrade(group: ClassicGroup, settings: GroupSettings) -> None:
    if settings.group_consumer_migration_policy not in UPGRADE_POLICIES:
        raise _cannot_upgrade(group, "online upgrade is disabled")
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _cannot_upgrade(group, "the group does not use the consumer embedded protocol")
    if len(group.members) > settings.group_consumer_max_size:
        raise _cannot_upgrade(group, "the group size exceeds the consumer group maximum size")


def _cannot_upgrade(group: ClassicGroup, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}.",
    )


def upgrade(operation: Operation, cluster: ClusterView, classic: ClassicGroup) -> ConsumerGroup:
    """Adds the records that replace a classic group by a consumer group; returns the group to be."""
    group = ConsumerGroup(classic.group_id)
    epoch = max(classic.generation, 1)
    try:
        members = [_upgraded(cluster, member, epoch) for member in classic.members.values()]
    except KafkaError:
        raise _cannot_upgrade(classic, "the embedded consumer protocol is malformed") from None
    group_id = classic.group_id
    names = {name for member in members for name in member.subscribed_topic_names}
    made: list[Any] = [member.metadata(group_id) for member in members]
    for member in members:
        group.put_member(member.metadata(group_id))
    group.group_epoch = group.assignment_epoch = epoch
    group.metadata_hash = cluster.hash_of(names)
    made.append(records.ConsumerGroupMetadata(group_id, epoch, group.metadata_hash))
    for member in members:
        made.append(records.TargetAssignment(group_id, member.member_id, frozenset(member.assigned)))
        group.put_target(made[-1])
    # Timestamp 0, so that the next target assignment may be computed at once.
    made.append(records.TargetAssignmentMetadata(group_id, epoch, 0))
    group.assignment_timestamp_ms = 0
    for member in members:
        made.append(member.current_assignment(group_id))
        group.put_current(made[-1])
        assert member.classic is not None
        operation.set_timer(session_timer(group, member.member_id), member.classic.session_timeout_ms)
    operation.records += [*classic.tombstones(), *made]
    return group


def _upgraded(cluster: ClusterView, member: Member, epoch: int) -> ConsumerMember:
    subscription = subscription_of(member.protocols[0][1])
    assigned: Partitions = frozenset()
    if member.assignment:
        try:
            read = consumer_protocol.read(ConsumerProtocolAssignment, member.assignment)
        except MalformedMessage as error:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"not an assignment: {error}") from None
        assigned = partitions_of(cluster, read.assigned_partitions)
    return ConsumerMember(
        member.member_id,
        member.group_instance_id,
        subscription.rack_id,
        member.client_id,
        member.client_host,
        frozenset(subscription.topics),
        "",
        member.rebalance_timeout_ms,
        None,
        records.ClassicMetadata(member.session_timeout_ms, member.protocols),
        epoch,
        epoch,
        assigned=dict.fromkeys(assigned, epoch),
    )


def release(operation: Operation, classic: ClassicGroup) -> None:
    """The group that takes its place is decided: nobody waits in this one any more."""
    for member_id, waiting in classic.awaiting_join.items():
        refuse_join(operation, waiting, ErrorCode.REBALANCE_IN_PROGRESS, member_id)
    for waiting in classic.awaiting_sync.values():
        refuse_sync(operation, waiting, ErrorCode.REBALANCE_IN_PROGRESS)
    classic.awaiting_join.clear()
    classic.awaiting_sync.clear()


# --- consumer to classic ------------------------------------------------------------------------


def can_downgrade(update: GroupUpdate, leaving: Iterable[str]) -> bool:
    """Whether the members that remain all use the classic protocol and can form a classic group."""
    settings = update.operation.settings
    if settings.group_consumer_migration_policy not in DOWNGRADE_POLICIES:
        return False
    gone = set(leaving)
    left = [member for member in update.members if member.member_id not in gone]
    return (
        0 < len(left) <= settings.group_max_size
        and all(member.classic is not None for member in left)
        and common_protocol(left) is not None
    )


def common_protocol(members: Iterable[ConsumerMember], also: Iterable[str] | None = None) -> str | None:
    """The first protocol of the first classic member that all of them support; None when there is none."""
    offered = [
        [name for name, _ in member.classic.protocols] for member in members if member.classic is not None
    ]
    if also is not None:
        offered.insert(0, list(also))
    known = [set(names) for names in offered]
    return next(
        (name for names in offered[:1] for name in names if all(name in each for each in known)), None
    )


def downgrade(update: GroupUpdate, leaving: Iterable[str]) -> None:
    """Makes the remaining members a classic group, which rebalances at once."""
    gone = set(leaving)
    update.operation.records += update.group.tombstones()
    _write_classic(update, [member for member in update.members if member.member_id not in gone])
    update.operation.set_timer(downgraded_timer(update.group.group_id), 0)


def downgrade_with(update: GroupUpdate, joined: ConsumerMember) -> None:
    """The last member with the consumer protocol rejoined as a classic one; rebalances only if needed."""
    group = update.group
    update.operation.records += (*group.member_tombstones(joined.member_id), *group.tombstones())
    left = [joined if member.member_id == joined.member_id else member for member in update.members]
    _write_classic(update, left)
    epoch = update.group_epoch
    if epoch != update.assignment_epoch or not all(member.is_reconciled_to(epoch) for member in left):
        update.operation.set_timer(downgraded_timer(group.group_id), 0)


def _write_classic(update: GroupUpdate, left: list[ConsumerMember]) -> None:
    protocol = common_protocol(left)
    assert protocol is not None
    group_id, operation = update.group.group_id, update.operation
    members = tuple(_downgraded(update, member, protocol) for member in left)
    operation.atomic = True
    operation.records.append(
        GroupMetadata(
            group_id,
            CONSUMER_PROTOCOL_TYPE,
            update.group_epoch,
            protocol,
            left[0].member_id,
            operation.now_ms,
            members,
        )
    )
    for member in members:
        timer = classic_session_timer(ClassicGroup(group_id), member.member_id)
        operation.set_timer(timer, member.session_timeout_ms)


def _downgraded(update: GroupUpdate, member: ConsumerMember, protocol: str) -> GroupMember:
    assert member.classic is not None
    metadata = dict(member.classic.protocols)[protocol]
    target = update.target_assignment.get(member.member_id, frozenset())
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        metadata,
        assignment_bytes(update.cluster, target, metadata),
    )
