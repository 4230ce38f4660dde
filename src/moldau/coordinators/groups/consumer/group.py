"""A consumer group (KIP-848): what the log says of it, and what it allows.

The group has an epoch that grows with every change of members, subscriptions or topics; the target
assignment has the epoch of the group that it was made for; each member has the epoch of the target that it
has got to.

Invariant: everything but ``checked_version`` and ``awaited`` is hard state and is written by the ``put``
and ``drop`` methods alone, which ``apply`` calls. No decisions here, except on what the group allows.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from moldau.coordinators.groups.classic.states import GroupType
from moldau.coordinators.groups.consumer import records as r
from moldau.coordinators.groups.consumer.assignors import Partition, Partitions
from moldau.coordinators.groups.consumer.member import ConsumerMember
from moldau.coordinators.groups.decision import Decision
from moldau.coordinators.groups.offsets import CommittedOffset
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
        #: When the target was last made; -1 for never.
        self.assignment_timestamp_ms = -1
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, Partitions] = {}
        #: From a regular expression to the topics behind it.
        self.regular_expressions: dict[str, r.RegularExpression] = {}
        #: The member that has a partition or has yet to let go of it.
        self.owners: dict[Partition, str] = {}
        #: The version of the topics that the group was last compared with; -1 for none. Not in the log.
        self.checked_version = -1
        #: Members that speak the classic protocol and have to join or to sync. Not in the log either.
        self.awaited: dict[str, str] = {}

    # --- writing: only from apply ---------------------------------------------------------------

    def put_member(self, record: r.MemberMetadata) -> None:
        old = self.members.get(record.member_id)
        self._forget_instance(old)
        self.members[record.member_id] = (old or ConsumerMember(record.member_id)).with_metadata(record)
        if record.instance_id is not None:
            self.static_members[record.instance_id] = record.member_id

    def drop_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        self._forget_instance(member)
        self._disown(member)
        self.awaited.pop(member_id, None)

    def put_target(self, record: r.TargetAssignment) -> None:
        self.targets[record.member_id] = record.partitions

    def put_current(self, record: r.CurrentAssignment) -> None:
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

    # --- what it looks like ---------------------------------------------------------------------

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
        self, member: ConsumerMember, resolved: Mapping[str, r.RegularExpression] | None = None
    ) -> frozenset[str]:
        """The names of the topics that a member reads, whether they exist or not."""
        found = (self.regular_expressions if resolved is None else resolved).get(
            member.subscribed_topic_regex
        )
        return (
            member.subscribed_topic_names
            if found is None
            else member.subscribed_topic_names.union(found.topics)
        )

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in member.subscribed_topic_names for member in self.members.values()) or any(
            topic in resolved.topics for resolved in self.regular_expressions.values()
        )

    # --- what it allows -------------------------------------------------------------------------

    def check_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_or_epoch: int,
        version: int,
        transactional: bool,
    ) -> None:
        if generation_or_epoch < 0 and not self.members:
            return  # an administrator, or a consumer that is no member
        if transactional and generation_or_epoch == -1 and not member_id and group_instance_id is None:
            return  # a producer that does not say for whom
        member = self._known(member_id)
        if not transactional and member.classic is None and version < COMMIT_WITH_MEMBER_EPOCH:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        if not 0 <= generation_or_epoch <= member.member_epoch:
            raise KafkaError(member.stale_epoch_error)

    def check_partition_commit(self, member_id: str, member_epoch: int, partition: Partition) -> ErrorCode:
        """A member that lags behind may commit for what it has had since the epoch that it knows of."""
        member = self.members.get(member_id)
        if member is None or member_epoch == member.member_epoch:
            return ErrorCode.NONE
        since = member.assigned.get(partition, member.pending_revocation.get(partition))
        return ErrorCode.NONE if since is not None and since <= member_epoch else member.stale_epoch_error

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return  # anybody may look
        member = self._known(member_id or "")
        if member.member_epoch != member_epoch:
            raise KafkaError(member.stale_epoch_error)

    def _known(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_offset_delete(self) -> None:
        """Which topics are in use is known, and asked for each."""

    def check_delete(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def expiry_start_ms(self, committed: CommittedOffset) -> int | None:
        return committed.commit_timestamp_ms

    def committed_by(self, member_id: str, decision: Decision) -> None:
        """No sign of life: heartbeats are sent whatever else a member does."""

    def member_tombstones(self, member_id: str) -> tuple[Any, ...]:
        return (
            r.CurrentAssignmentTombstone(self.group_id, member_id),
            r.TargetAssignmentTombstone(self.group_id, member_id),
            r.MemberMetadataTombstone(self.group_id, member_id),
        )

    def tombstones(self) -> tuple[Any, ...]:
        members = (record for member_id in self.members for record in self.member_tombstones(member_id))
        return (
            *members,
            r.TargetAssignmentMetadataTombstone(self.group_id),
            r.PartitionMetadataTombstone(self.group_id),
            *(r.RegularExpressionTombstone(self.group_id, regex) for regex in self.regular_expressions),
            r.ConsumerGroupMetadataTombstone(self.group_id),
        )

    def assignor_name(self, members: Iterable[ConsumerMember], offered: tuple[str, ...]) -> str:
        """The assignor that most members ask for; the broker's first when nobody asks."""
        votes = Counter(member.server_assignor for member in members if member.server_assignor in offered)
        best = max(votes, key=votes.__getitem__, default=None)
        return best or offered[0]
