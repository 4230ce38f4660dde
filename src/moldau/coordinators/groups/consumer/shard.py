"""The consumer groups (KIP-848) of one shard: records applied, heartbeats and descriptions answered.

Invariant: beside ``apply`` nothing here writes to a group; a group that is new or changes its protocol
becomes so by the records of the decision, when they are applied.
"""

from collections.abc import Callable, Iterable
from typing import Any

from moldau.base.names import ZERO_UUID
from moldau.coordinators.groups import migration
from moldau.coordinators.groups.classic import rebalance
from moldau.coordinators.groups.classic.group import ClassicGroup
from moldau.coordinators.groups.classic.states import ClassicState, Group
from moldau.coordinators.groups.consumer import classic_members as consumer_classic
from moldau.coordinators.groups.consumer import heartbeat as heartbeats
from moldau.coordinators.groups.consumer import records as r
from moldau.coordinators.groups.consumer.assignors import Partition
from moldau.coordinators.groups.consumer.change import Change
from moldau.coordinators.groups.consumer.group import ConsumerGroup
from moldau.coordinators.groups.consumer.member import JOIN_EPOCH, ConsumerMember
from moldau.coordinators.groups.consumer.topics import ClusterView
from moldau.coordinators.groups.decision import Client, Decision
from moldau.coordinators.groups.offsets import PartitionCheck
from moldau.coordinators.groups.surroundings import Surroundings
from moldau.coordinators.machine import Writer
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.protocol.messages.leave_group import MemberIdentity
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

#: How ConsumerGroupDescribe tells members apart.
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


class ConsumerGroups:
    def __init__(self, groups: dict[str, Group], surroundings: Surroundings) -> None:
        self._groups = groups
        self._surroundings = surroundings
        self.cluster = ClusterView(surroundings)
        self.appliers: dict[type, Callable[[Any, Writer | None], None]] = {
            r.ConsumerGroupMetadata: self._apply_metadata,
            r.ConsumerGroupMetadataTombstone: self._apply_tombstone,
            r.PartitionMetadataTombstone: lambda record, writer: None,
            r.MemberMetadata: lambda record, writer: self._of(record).put_member(record),
            r.MemberMetadataTombstone: self._when_there(lambda g, record: g.drop_member(record.member_id)),
            r.TargetAssignmentMetadata: self._apply_target_metadata,
            r.TargetAssignmentMetadataTombstone: lambda record, writer: None,
            r.TargetAssignment: lambda record, writer: self._of(record).put_target(record),
            r.TargetAssignmentTombstone: self._when_there(
                lambda g, record: g.targets.pop(record.member_id, None)
            ),
            r.CurrentAssignment: lambda record, writer: self._of(record).put_current(record),
            r.CurrentAssignmentTombstone: self._when_there(
                lambda g, record: g.drop_current(record.member_id)
            ),
            r.RegularExpression: self._apply_regular_expression,
            r.RegularExpressionTombstone: self._when_there(
                lambda g, record: g.regular_expressions.pop(record.regular_expression, None)
            ),
        }
        self.alarms: dict[str, Callable[[Decision, Any], None]] = {
            "consumer session": self._session_timeout,
            "consumer rebalance": self._rebalance_timeout,
            "consumer regular expression": self._resolve_expressions,
            "consumer round": self._round_timeout,
            "downgraded": self._downgraded,
        }

    # --- hard state -----------------------------------------------------------------------------

    def get(self, group_id: str) -> ConsumerGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _of(self, record: Any) -> ConsumerGroup:
        """The group of a record; from its first one on it is a consumer group, whatever it was before."""
        group = self.get(record.group_id)
        if group is None:
            group = ConsumerGroup(record.group_id)
            self._groups[record.group_id] = group
        group.established = True
        return group

    def _when_there(
        self, change: Callable[[ConsumerGroup, Any], Any]
    ) -> Callable[[Any, Writer | None], None]:
        def apply(record: Any, writer: Writer | None) -> None:
            group = self.get(record.group_id)
            if group is not None:
                change(group, record)

        return apply

    def _apply_metadata(self, record: r.ConsumerGroupMetadata, writer: Writer | None) -> None:
        group = self._of(record)
        group.group_epoch, group.metadata_hash = record.epoch, record.metadata_hash

    def _apply_tombstone(self, record: r.ConsumerGroupMetadataTombstone, writer: Writer | None) -> None:
        if self.get(record.group_id) is not None:
            del self._groups[record.group_id]

    def _apply_target_metadata(self, record: r.TargetAssignmentMetadata, writer: Writer | None) -> None:
        group = self._of(record)
        group.assignment_epoch = record.assignment_epoch
        group.assignment_timestamp_ms = record.assignment_timestamp_ms

    def _apply_regular_expression(self, record: r.RegularExpression, writer: Writer | None) -> None:
        self._of(record).regular_expressions[record.regular_expression] = record

    # --- heartbeats -----------------------------------------------------------------------------

    def heartbeat(
        self, decision: Decision, request: ConsumerGroupHeartbeatRequest, version: int, client: Client
    ) -> ConsumerGroupHeartbeatResponse:
        """The answer to a heartbeat; KafkaError when it is refused, and then nothing has been decided."""
        heartbeats.check_request(request, version, decision.settings)
        if request.member_epoch < JOIN_EPOCH:
            return heartbeats.leave(self._change(decision, self._existing(request, "Group")), request)
        if request.member_epoch != JOIN_EPOCH:
            group = self._existing(request, "Consumer group")
        else:
            group = self._existing_or_new(decision, request.group_id)
            request.member_id = request.member_id or self._new_member_id(decision)
        return heartbeats.Heartbeat(self._change(decision, group), request, client).decide()

    def _new_member_id(self, decision: Decision) -> str:
        return (self._surroundings.new_member_id or decision.new_id)()

    def _change(self, decision: Decision, group: ConsumerGroup) -> Change:
        return Change(decision, self.cluster, group)

    def _existing(self, request: ConsumerGroupHeartbeatRequest, called: str) -> ConsumerGroup:
        group = self._groups.get(request.group_id)
        if group is None or not group.established:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{called} {request.group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise _not_a_consumer_group(request.group_id)
        return group

    def _existing_or_new(self, decision: Decision, group_id: str) -> ConsumerGroup:
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if isinstance(group, ClassicGroup):
            if not group.is_empty:
                migration.check_upgrade(group, decision.settings)
                return migration.upgrade(decision, self.cluster, group)
            decision.records += group.tombstones()
        elif group is not None:
            raise _not_a_consumer_group(group_id)
        return ConsumerGroup(group_id)

    # --- members that speak the classic protocol ------------------------------------------------

    def join(
        self,
        decision: Decision,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        version: int,
        client: Client,
    ) -> JoinGroupResponse:
        new_member_id = self._new_member_id(decision)
        return consumer_classic.join(self._change(decision, group), request, version, client, new_member_id)

    def sync(
        self, decision: Decision, group: ConsumerGroup, request: SyncGroupRequest, version: int
    ) -> SyncGroupResponse:
        return consumer_classic.sync(self._change(decision, group), request, version)

    def classic_heartbeat(
        self, decision: Decision, group: ConsumerGroup, request: HeartbeatRequest
    ) -> ErrorCode:
        return consumer_classic.heartbeat(self._change(decision, group), request)

    def leave(
        self, decision: Decision, group: ConsumerGroup, leaving: list[MemberIdentity]
    ) -> list[ErrorCode]:
        return consumer_classic.leave(self._change(decision, group), leaving)

    # --- offsets --------------------------------------------------------------------------------

    def commit_check(self, group: Group | None, member_id: str, member_epoch: int) -> PartitionCheck:
        """What is still to be asked for each partition once the group lets a member commit."""

        def check(topic: str, index: int) -> ErrorCode:
            if not isinstance(group, ConsumerGroup) or member_epoch < 0:
                return ErrorCode.NONE
            found = self.cluster.topics.by_name(topic)
            topic_id = ZERO_UUID if found is None else found.topic_id
            return group.check_partition_commit(member_id, member_epoch, (topic_id, index))

        return check

    # --- alarms ---------------------------------------------------------------------------------

    def loaded(self, decision: Decision) -> None:
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                heartbeats.loaded(decision, self.cluster, group)

    def _session_timeout(self, decision: Decision, key: tuple[str, str, str]) -> None:
        group = self.get(key[1])
        if group is not None:
            heartbeats.session_timeout(decision, self.cluster, group, key[2])

    def _rebalance_timeout(self, decision: Decision, key: tuple[str, str, str]) -> None:
        group = self.get(key[1])
        if group is not None:
            heartbeats.rebalance_timeout(decision, self.cluster, group, key[2])

    def _resolve_expressions(self, decision: Decision, key: tuple[str, str]) -> None:
        group = self.get(key[1])
        if group is not None:
            heartbeats.resolve_expressions(decision, self.cluster, group)

    def _round_timeout(self, decision: Decision, key: tuple[str, str, str]) -> None:
        group = self.get(key[1])
        if group is not None:
            consumer_classic.round_timeout(self._change(decision, group), key[2])

    def _downgraded(self, decision: Decision, key: tuple[str, str]) -> None:
        """A group that is classic again: its members join, as they do after any change."""
        group = self._groups.get(key[1])
        if isinstance(group, ClassicGroup) and group.state is ClassicState.STABLE:
            rebalance.prepare(decision, group)

    # --- descriptions ---------------------------------------------------------------------------

    def describe(self, group_id: str, offered: tuple[str, ...]) -> DescribedGroup:
        group = self._groups.get(group_id)
        if group is None or not group.established or not isinstance(group, ConsumerGroup):
            return DescribedGroup(
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=f"Group {group_id} not found."
                if group is None or not group.established
                else f"Group {group_id} is not a consumer group.",
                group_id=group_id,
            )
        return DescribedGroup(
            error_code=ErrorCode.NONE,
            group_id=group_id,
            group_state=group.state_name,
            group_epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=group.assignor_name(group.members.values(), offered),
            members=[self._described(group, member) for member in group.members.values()],
        )

    def _described(self, group: ConsumerGroup, member: ConsumerMember) -> Member:
        return Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.member_epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topic_names),
            subscribed_topic_regex=member.subscribed_topic_regex,
            # What it has yet to let go of is still its own.
            assignment=self._named({**member.assigned, **member.pending_revocation}),
            target_assignment=self._named(group.targets.get(member.member_id, ())),
            member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
        )

    def _named(self, partitions: Iterable[Partition]) -> Assignment:
        """Partitions under the names of their topics; topics that are gone have none and are left out."""
        topics = self.cluster.topics
        found = ((topics.by_id(topic_id), indexes) for topic_id, indexes in r.by_topic(partitions).items())
        return Assignment(
            [
                TopicPartitions(topic.topic_id, topic.name, indexes)
                for topic, indexes in found
                if topic is not None
            ]
        )


def _not_a_consumer_group(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
