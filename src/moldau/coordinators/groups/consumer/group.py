"""A consumer group (KIP-848): its hard state and its rules.

The group epoch grows with every change of members, subscriptions or topics. The assignment epoch is the group
epoch for which the target assignment was computed, and the member epoch is the assignment epoch that a member
has reached.

Invariant: everything but ``checked_metadata_version``, ``may_describe`` and ``awaited_requests`` is hard
state, and is written by the appliers in ``consumer_groups`` alone.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from moldau.coordinators.groups.consumer import records
from moldau.coordinators.groups.consumer.assignors import Partition, Partitions
from moldau.coordinators.groups.consumer.member import ConsumerMember
from moldau.coordinators.groups.group import GroupType
from moldau.coordinators.groups.offsets import CommittedOffset
from moldau.coordinators.groups.operation import Operation
from moldau.protocol.errors import ErrorCode, KafkaError

#: OffsetCommit can carry the epoch of a member from this version on.
COMMIT_WITH_MEMBER_EPOCH = 9


class ConsumerGroup:
    type: Final = GroupType.CONSUMER

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.established = False
        self.group_epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        #: When the target assignment was computed; -1 for never.
        self.assignment_timestamp_ms = -1
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.target_assignment: dict[str, Partitions] = {}
        #: The topics that match each regular expression.
        self.resolved_regular_expressions: dict[str, records.RegularExpression] = {}
        #: The member that owns a partition or still has to revoke it.
        self.owners: dict[Partition, str] = {}
        #: The version of the topics that the group was last compared with; -1 for none. Soft state.
        self.checked_metadata_version = -1
        #: Whether the member that spoke last may know of a topic: regular expressions mean no other topics.
        #: Soft state; None where everybody may know of all, or nobody has spoken yet.
        self.may_describe: Callable[[str], bool] | None = None
        #: The request ("join" or "sync") that is expected from members with the classic protocol. Soft state.
        self.awaited_requests: dict[str, str] = {}

    # --- writing: only from apply ---------------------------------------------------------------

    def put_member(self, record: records.MemberMetadata) -> None:
        old = self.members.get(record.member_id)
        self._forget_instance(old)
        self.members[record.member_id] = (old or ConsumerMember(record.member_id)).with_metadata(record)
        if record.instance_id is not None:
            self.static_members[record.instance_id] = record.member_id

    def drop_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        self._forget_instance(member)
        self._disown(member)
        self.awaited_requests.pop(member_id, None)

    def put_target(self, record: records.TargetAssignment) -> None:
        self.target_assignment[record.member_id] = record.partitions

    def put_current(self, record: records.CurrentAssignment) -> None:
        old = self.members.get(record.member_id)
        self._disown(old)
        new = (old or ConsumerMember(record.member_id)).with_assignment(record)
        self.members[record.member_id] = new
        for partitions in (new.assigned, new.pending_revocation):
            self.owners.update(dict.fromkeys(partitions, new.member_id))

    def drop_current(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is not None:
            self.put_current(ConsumerMember(member_id).current_assignment(self.group_id))

    def _disown(self, member: ConsumerMember | None) -> None:
        if member is None:
            return
        for partitions in (member.assigned, member.pending_revocation):
            for partition in partitions:
                if self.owners.get(partition) == member.member_id:
                    del self.owners[partition]

    def _forget_instance(self, member: ConsumerMember | None) -> None:
        if member is None or member.instance_id is None:
            return
        if self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    # --- state ----------------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        epoch = self.assignment_epoch
        stable = all(member.is_reconciled_to(epoch) for member in self.members.values())
        return "Stable" if stable else "Reconciling"

    @property
    def listed_protocol_type(self) -> str:
        return "consumer"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def subscription(
        self, member: ConsumerMember, resolved: Mapping[str, records.RegularExpression] | None = None
    ) -> frozenset[str]:
        """The names of the topics that a member is subscribed to, whether they exist or not."""
        found = (self.resolved_regular_expressions if resolved is None else resolved).get(
            member.subscribed_topic_regex
        )
        return (
            member.subscribed_topic_names
            if found is None
            else member.subscribed_topic_names.union(found.topics)
        )

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in member.subscribed_topic_names for member in self.members.values()) or any(
            topic in resolved.topics for resolved in self.resolved_regular_expressions.values()
        )

    # --- rules ----------------------------------------------------------------------------------

    def check_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_or_epoch: int,
        version: int,
        transactional: bool,
    ) -> None:
        if generation_or_epoch < 0 and not self.members:
            return  # an administrator, or a consumer without group management
        if transactional and generation_or_epoch == -1 and not member_id and group_instance_id is None:
            return  # a producer that does not send the group metadata
        member = self._known(member_id)
        if not transactional and member.classic is None and version < COMMIT_WITH_MEMBER_EPOCH:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        if not 0 <= generation_or_epoch <= member.member_epoch:
            raise KafkaError(member.stale_epoch_error)

    def check_partition_commit(self, member_id: str, member_epoch: int, partition: Partition) -> ErrorCode:
        """With a stale member epoch it may commit partitions that it has owned since that epoch or longer."""
        member = self.members.get(member_id)
        if member is None or member_epoch == member.member_epoch:
            return ErrorCode.NONE
        since = member.assigned.get(partition, member.pending_revocation.get(partition))
        return ErrorCode.NONE if since is not None and since <= member_epoch else member.stale_epoch_error

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return  # everybody may read offsets
        member = self._known(member_id or "")
        if member.member_epoch != member_epoch:
            raise KafkaError(member.stale_epoch_error)

    def _known(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_offset_delete(self) -> None:
        """Always allowed; subscribed topics are refused one by one."""

    def check_delete(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def expiry_start_ms(self, committed: CommittedOffset) -> int | None:
        return committed.commit_timestamp_ms

    def committed_by(self, member_id: str, operation: Operation) -> None:
        """Does not extend the session: members of consumer groups always send heartbeats."""

    def member_tombstones(self, member_id: str) -> tuple[Any, ...]:
        return (
            records.CurrentAssignmentTombstone(self.group_id, member_id),
            records.TargetAssignmentTombstone(self.group_id, member_id),
            records.MemberMetadataTombstone(self.group_id, member_id),
        )

    def tombstones(self) -> tuple[Any, ...]:
        members = (record for member_id in self.members for record in self.member_tombstones(member_id))
        return (
            *members,
            records.TargetAssignmentMetadataTombstone(self.group_id),
            records.PartitionMetadataTombstone(self.group_id),
            *(
                records.RegularExpressionTombstone(self.group_id, regex)
                for regex in self.resolved_regular_expressions
            ),
            records.ConsumerGroupMetadataTombstone(self.group_id),
        )

    def assignor_name(self, members: Iterable[ConsumerMember], offered: tuple[str, ...]) -> str:
        """The assignor that most members ask for; the first one of the broker when nobody asks."""
        votes = Counter(member.server_assignor for member in members if member.server_assignor in offered)
        best = max(votes, key=votes.__getitem__, default=None)
        return best or offered[0]
