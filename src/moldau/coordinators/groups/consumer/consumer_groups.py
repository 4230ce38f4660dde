"""The consumer groups (KIP-848) of one shard: applies their records, handles their requests and timers.

Invariant: groups are written by the appliers alone: a new group, or one that changes its protocol, appears
when the records of its operation are applied.
"""

from collections.abc import Callable, Iterable
from typing import Any

from moldau.base.names import ZERO_UUID
from moldau.coordinators.groups import migration
from moldau.coordinators.groups.classic import rebalance
from moldau.coordinators.groups.classic.group import ClassicGroup, ClassicState
from moldau.coordinators.groups.consumer import classic_members as consumer_classic
from moldau.coordinators.groups.consumer import heartbeat as heartbeats
from moldau.coordinators.groups.consumer import records
from moldau.coordinators.groups.consumer.assignors import Partition
from moldau.coordinators.groups.consumer.cluster_view import ClusterView
from moldau.coordinators.groups.consumer.group import ConsumerGroup
from moldau.coordinators.groups.consumer.group_update import GroupUpdate
from moldau.coordinators.groups.consumer.member import JOIN_EPOCH, ConsumerMember
from moldau.coordinators.groups.environment import Environment
from moldau.coordinators.groups.group import Group
from moldau.coordinators.groups.offsets import PartitionCheck
from moldau.coordinators.groups.operation import Client, Operation
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

#: The member types of ConsumerGroupDescribe.
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


class ConsumerGroups:
    def __init__(self, groups: dict[str, Group], environment: Environment) -> None:
        self._groups = groups
        self._environment = environment
        self.cluster = ClusterView(environment)
        #: The group that somebody has joined last, and of which topics that one may know: it may be new, and
        #: made by the records of this join.
        self._newest: tuple[str, Callable[[str], bool] | None] = ("", None)
        self.appliers: dict[type, Callable[[Any], None]] = {
            records.ConsumerGroupMetadata: self._apply_metadata,
            records.ConsumerGroupMetadataTombstone: self._apply_tombstone,
            records.PartitionMetadataTombstone: lambda record: None,
            records.MemberMetadata: lambda record: self._of(record).put_member(record),
            records.MemberMetadataTombstone: self._if_present(
                lambda g, record: g.drop_member(record.member_id)
            ),
            records.TargetAssignmentMetadata: self._apply_target_metadata,
            records.TargetAssignmentMetadataTombstone: lambda record: None,
            records.TargetAssignment: lambda record: self._of(record).put_target(record),
            records.TargetAssignmentTombstone: self._if_present(
                lambda g, record: g.target_assignment.pop(record.member_id, None)
            ),
            records.CurrentAssignment: lambda record: self._of(record).put_current(record),
            records.CurrentAssignmentTombstone: self._if_present(
                lambda g, record: g.drop_current(record.member_id)
            ),
            records.RegularExpression: self._apply_regular_expression,
            records.RegularExpressionTombstone: self._if_present(
                lambda g, record: g.resolved_regular_expressions.pop(record.regular_expression, None)
            ),
        }
        self.timers: dict[str, Callable[[Operation, Any], None]] = {
            "consumer session": self._session_timeout,
            "consumer rebalance": self._rebalance_timeout,
            "consumer regular expression": self._resolve_expressions,
            "consumer classic request": self._classic_request_timeout,
            "downgraded": self._downgraded,
        }

    # --- hard state -----------------------------------------------------------------------------

    def get(self, group_id: str) -> ConsumerGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _of(self, record: Any) -> ConsumerGroup:
        """The group of a record; its first record creates it, and replaces a classic group of the same id."""
        group = self.get(record.group_id)
        if group is None:
            group = ConsumerGroup(record.group_id)
            self._groups[record.group_id] = group
            if self._newest[0] == record.group_id:
                group.may_describe = self._newest[1]
        group.established = True
        return group

    def _if_present(self, change: Callable[[ConsumerGroup, Any], Any]) -> Callable[[Any], None]:
        def apply(record: Any) -> None:
            group = self.get(record.group_id)
            if group is not None:
                change(group, record)

        return apply

    def _apply_metadata(self, record: records.ConsumerGroupMetadata) -> None:
        group = self._of(record)
        group.group_epoch, group.metadata_hash = record.epoch, record.metadata_hash

    def _apply_tombstone(self, record: records.ConsumerGroupMetadataTombstone) -> None:
        if self.get(record.group_id) is not None:
            del self._groups[record.group_id]

    def _apply_target_metadata(self, record: records.TargetAssignmentMetadata) -> None:
        group = self._of(record)
        group.assignment_epoch = record.assignment_epoch
        group.assignment_timestamp_ms = record.assignment_timestamp_ms

    def _apply_regular_expression(self, record: records.RegularExpression) -> None:
        self._of(record).resolved_regular_expressions[record.regular_expression] = record

    # --- heartbeats -----------------------------------------------------------------------------

    def heartbeat(
        self, operation: Operation, request: ConsumerGroupHeartbeatRequest, version: int, client: Client
    ) -> ConsumerGroupHeartbeatResponse:
        """The response to a heartbeat; after a KafkaError the records of the operation must be dropped."""
        heartbeats.check_request(request, version, operation.settings)
        if request.member_epoch < JOIN_EPOCH:
            return heartbeats.leave(self._update(operation, self._existing(request, "Group")), request)
        if request.member_epoch != JOIN_EPOCH:
            group = self._existing(request, "Consumer group")
        else:
            group = self._existing_or_new(operation, request.group_id)
            request.member_id = request.member_id or self._new_member_id(operation)
            self._newest = request.group_id, client.may_describe
        answer = heartbeats.Heartbeat(self._update(operation, group), request, client).decide()
        replaced = self._groups.get(request.group_id)
        if isinstance(replaced, ClassicGroup):
            migration.release(operation, replaced)
        return answer

    def _new_member_id(self, operation: Operation) -> str:
        return (self._environment.new_member_id or operation.new_id)()

    def _update(self, operation: Operation, group: ConsumerGroup) -> GroupUpdate:
        return GroupUpdate(operation, self.cluster, group)

    def _existing(self, request: ConsumerGroupHeartbeatRequest, called: str) -> ConsumerGroup:
        group = self._groups.get(request.group_id)
        if group is None or not group.established:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{called} {request.group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise _not_a_consumer_group(request.group_id)
        return group

    def _existing_or_new(self, operation: Operation, group_id: str) -> ConsumerGroup:
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if isinstance(group, ClassicGroup):
            if not group.is_empty:
                migration.check_upgrade(group, operation.settings)
                return migration.upgrade(operation, self.cluster, group)
            operation.records += group.tombstones()
        elif group is not None:
            raise _not_a_consumer_group(group_id)
        return ConsumerGroup(group_id)

    # --- members that use the classic protocol --------------------------------------------------

    def join(
        self,
        operation: Operation,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        version: int,
        client: Client,
    ) -> JoinGroupResponse:
        new_member_id = self._new_member_id(operation)
        return consumer_classic.join(self._update(operation, group), request, version, client, new_member_id)

    def sync(
        self, operation: Operation, group: ConsumerGroup, request: SyncGroupRequest, version: int
    ) -> SyncGroupResponse:
        return consumer_classic.sync(self._update(operation, group), request, version)

    def classic_heartbeat(
        self, operation: Operation, group: ConsumerGroup, request: HeartbeatRequest
    ) -> ErrorCode:
        return consumer_classic.heartbeat(self._update(operation, group), request)

    def leave(
        self, operation: Operation, group: ConsumerGroup, leaving: list[MemberIdentity]
    ) -> list[ErrorCode]:
        return consumer_classic.leave(self._update(operation, group), leaving)

    # --- offsets --------------------------------------------------------------------------------

    def commit_check(self, group: Group | None, member_id: str, member_epoch: int) -> PartitionCheck:
        """The check of each partition that a member commits."""

        def check(topic: str, index: int) -> ErrorCode:
            if not isinstance(group, ConsumerGroup) or member_epoch < 0:
                return ErrorCode.NONE
            found = self.cluster.topics.by_name(topic)
            topic_id = ZERO_UUID if found is None else found.topic_id
            return group.check_partition_commit(member_id, member_epoch, (topic_id, index))

        return check

    # --- timeouts -------------------------------------------------------------------------------

    def loaded(self, operation: Operation) -> None:
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                heartbeats.loaded(operation, self.cluster, group)

    def _session_timeout(self, operation: Operation, key: tuple[str, str, str]) -> None:
        group = self.get(key[1])
        if group is not None:
            heartbeats.session_timeout(operation, self.cluster, group, key[2])

    def _rebalance_timeout(self, operation: Operation, key: tuple[str, str, str]) -> None:
        group = self.get(key[1])
        if group is not None:
            heartbeats.rebalance_timeout(operation, self.cluster, group, key[2])

    def _resolve_expressions(self, operation: Operation, key: tuple[str, str]) -> None:
        group = self.get(key[1])
        if group is not None:
            heartbeats.resolve_expressions(operation, self.cluster, group)

    def _classic_request_timeout(self, operation: Operation, key: tuple[str, str, str]) -> None:
        group = self.get(key[1])
        if group is not None:
            consumer_classic.classic_request_timeout(self._update(operation, group), key[2])

    def _downgraded(self, operation: Operation, key: tuple[str, str]) -> None:
        """A group that is classic again: its members join, as they do after any update."""
        group = self._groups.get(key[1])
        if isinstance(group, ClassicGroup) and group.state is ClassicState.STABLE:
            rebalance.prepare_rebalance(operation, group)

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
            # Partitions that it has not revoked yet are still assigned to it.
            assignment=self._named({**member.assigned, **member.pending_revocation}),
            target_assignment=self._named(group.target_assignment.get(member.member_id, ())),
            member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
        )

    def _named(self, partitions: Iterable[Partition]) -> Assignment:
        """Partitions with the names of their topics; deleted topics are left out."""
        topics = self.cluster.topics
        found = (
            (topics.by_id(topic_id), indexes) for topic_id, indexes in records.by_topic(partitions).items()
        )
        return Assignment(
            [
                TopicPartitions(topic.topic_id, topic.name, indexes)
                for topic, indexes in found
                if topic is not None
            ]
        )


def _not_a_consumer_group(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
