"""Groups that change their protocol while they have members: classic to consumer, and back.

A classic group becomes a consumer group when the first member of the new protocol joins it; its members stay
what they are and speak on as classic members. When the last member of the new protocol goes, those who are
left are a classic group again, and begin a round. ``group.consumer.migration.policy`` says which is allowed.

Invariant: a change of protocol is the records of one decision; who waits for the end of a round of a group
that is no longer is told to join again.
"""

from collections.abc import Iterable
from typing import Any

from moldau.coordinators.groups.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, Member
from moldau.coordinators.groups.classic.group import session_alarm as classic_session_alarm
from moldau.coordinators.groups.classic.rebalance import refuse_join, refuse_sync
from moldau.coordinators.groups.consumer import records as r
from moldau.coordinators.groups.consumer.assignors import Partition, Partitions
from moldau.coordinators.groups.consumer.change import Change, session_alarm
from moldau.coordinators.groups.consumer.group import ConsumerGroup
from moldau.coordinators.groups.consumer.member import ConsumerMember
from moldau.coordinators.groups.consumer.topics import ClusterView
from moldau.coordinators.groups.decision import Decision, GroupSettings
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


def downgraded_alarm(group_id: str) -> tuple[str, str]:
    return ("downgraded", group_id)


# --- what classic members say of partitions -----------------------------------------------------


def subscription_of(metadata: bytes) -> ConsumerProtocolSubscription:
    """The subscription in a classic member's metadata; KafkaError when it is none."""
    try:
        return consumer_protocol.read(ConsumerProtocolSubscription, metadata)
    except MalformedMessage as error:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"not a subscription: {error}") from None


def partitions_of(cluster: ClusterView, topics: Iterable[TopicPartition]) -> Partitions:
    """Partitions under names, those of topics that exist."""
    found: set[Partition] = set()
    for named in topics:
        topic = cluster.topics.by_name(named.topic)
        if topic is not None:
            found.update((topic.topic_id, index) for index in named.partitions)
    return frozenset(found)


def assignment_bytes(cluster: ClusterView, partitions: Iterable[Partition], metadata: bytes) -> bytes:
    """An assignment for a classic member, in the version that its metadata has."""
    named = []
    for topic_id, indexes in r.by_topic(partitions).items():
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


def upgrade(decision: Decision, cluster: ClusterView, classic: ClassicGroup) -> ConsumerGroup:
    """Writes a classic group down as a consumer group, and returns that as it will be."""
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
    made.append(r.ConsumerGroupMetadata(group_id, epoch, group.metadata_hash))
    for member in members:
        made.append(r.TargetAssignment(group_id, member.member_id, frozenset(member.assigned)))
        group.put_target(made[-1])
    # No time: the target is somebody else's work, and the next may be made at once.
    made.append(r.TargetAssignmentMetadata(group_id, epoch, 0))
    group.assignment_timestamp_ms = 0
    for member in members:
        made.append(member.current_assignment(group_id))
        group.put_current(made[-1])
        assert member.classic is not None
        decision.ring_in(session_alarm(group, member.member_id), member.classic.session_timeout_ms)
    _release(decision, classic)
    decision.records += [*classic.tombstones(), *made]
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
        r.ClassicMetadata(member.session_timeout_ms, member.protocols),
        epoch,
        epoch,
        assigned=dict.fromkeys(assigned, epoch),
    )


def _release(decision: Decision, classic: ClassicGroup) -> None:
    for member_id, parked in classic.joins.items():
        refuse_join(decision, parked, ErrorCode.REBALANCE_IN_PROGRESS, member_id)
    for parked in classic.syncs.values():
        refuse_sync(decision, parked, ErrorCode.REBALANCE_IN_PROGRESS)
    classic.joins.clear()
    classic.syncs.clear()


# --- consumer to classic ------------------------------------------------------------------------


def can_downgrade(change: Change, leaving: Iterable[str]) -> bool:
    """Whether those who are left when some have gone all speak the classic protocol, and may be a group."""
    settings = change.decision.settings
    if settings.group_consumer_migration_policy not in DOWNGRADE_POLICIES:
        return False
    gone = set(leaving)
    left = [member for member in change.members if member.member_id not in gone]
    return (
        0 < len(left) <= settings.group_max_size
        and all(member.classic is not None for member in left)
        and common_protocol(left) is not None
    )


def common_protocol(members: Iterable[ConsumerMember], also: Iterable[str] | None = None) -> str | None:
    """The first protocol of the first classic member that all of them know; None when there is none."""
    offered = [
        [name for name, _ in member.classic.protocols] for member in members if member.classic is not None
    ]
    if also is not None:
        offered.insert(0, list(also))
    known = [set(names) for names in offered]
    return next(
        (name for names in offered[:1] for name in names if all(name in each for each in known)), None
    )


def downgrade(change: Change, leaving: Iterable[str]) -> None:
    """The group as those who are left are, when some have gone; they begin a round."""
    gone = set(leaving)
    change.decision.records += change.group.tombstones()
    _write_classic(change, [member for member in change.members if member.member_id not in gone])
    change.decision.ring_in(downgraded_alarm(change.group.group_id), 0)


def downgrade_with(change: Change, joined: ConsumerMember) -> None:
    """The last member of the new protocol came back as a classic one; if all is settled, nobody need join."""
    group = change.group
    change.decision.records += (*group.member_tombstones(joined.member_id), *group.tombstones())
    left = [joined if member.member_id == joined.member_id else member for member in change.members]
    _write_classic(change, left)
    epoch = change.group_epoch
    if epoch != change.assignment_epoch or not all(member.is_reconciled_to(epoch) for member in left):
        change.decision.ring_in(downgraded_alarm(group.group_id), 0)


def _write_classic(change: Change, left: list[ConsumerMember]) -> None:
    protocol = common_protocol(left)
    assert protocol is not None
    group_id, decision = change.group.group_id, change.decision
    members = tuple(_downgraded(change, member, protocol) for member in left)
    decision.atomic = True
    decision.records.append(
        GroupMetadata(
            group_id,
            CONSUMER_PROTOCOL_TYPE,
            change.group_epoch,
            protocol,
            left[0].member_id,
            decision.now_ms,
            members,
        )
    )
    for member in members:
        alarm = classic_session_alarm(ClassicGroup(group_id), member.member_id)
        decision.ring_in(alarm, member.session_timeout_ms)


def _downgraded(change: Change, member: ConsumerMember, protocol: str) -> GroupMember:
    assert member.classic is not None
    metadata = dict(member.classic.protocols)[protocol]
    target = change.targets.get(member.member_id, frozenset())
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        metadata,
        assignment_bytes(change.cluster, target, metadata),
    )
