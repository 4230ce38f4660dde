"""A member of a consumer group, and its reconciliation from its current to its target assignment.

A member first revokes partitions that are not in its target (UNREVOKED_PARTITIONS), then gets those that
other members have released (UNRELEASED_PARTITIONS while some are missing), and is stable when it has all of
them.

Invariant: a partition is never assigned to a member while another one owns it or has not confirmed that it
revoked it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from moldau.base.names import Uuid
from moldau.coordinators.groups.consumer.assignors import Partition, Partitions
from moldau.coordinators.groups.consumer.records import (
    ClassicMetadata,
    CurrentAssignment,
    MemberMetadata,
    PartitionEpochs,
)
from moldau.protocol.errors import ErrorCode, KafkaError

#: Instead of a member epoch: the member joins, leaves, or leaves temporarily as a static member.
JOIN_EPOCH = 0
STATIC_LEAVE_EPOCH = -2

_NOTHING: Mapping[Partition, int] = {}


class MemberState(IntEnum):
    """The values are those in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    #: Set for a member that uses the classic protocol.
    classic: ClassicMetadata | None = None
    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: PartitionEpochs = field(default_factory=lambda: _NOTHING)
    pending_revocation: PartitionEpochs = field(default_factory=lambda: _NOTHING)

    def metadata(self, group_id: str) -> MemberMetadata:
        return MemberMetadata(
            group_id,
            self.member_id,
            self.instance_id,
            self.rack_id,
            self.client_id,
            self.client_host,
            tuple(sorted(self.subscribed_topic_names)),
            self.subscribed_topic_regex,
            self.rebalance_timeout_ms,
            self.server_assignor,
            self.classic,
        )

    def current_assignment(self, group_id: str) -> CurrentAssignment:
        return CurrentAssignment(
            group_id,
            self.member_id,
            self.member_epoch,
            self.previous_member_epoch,
            self.state,
            self.assigned,
            self.pending_revocation,
        )

    def with_metadata(self, record: MemberMetadata) -> "ConsumerMember":
        return replace(
            self,
            instance_id=record.instance_id,
            rack_id=record.rack_id,
            client_id=record.client_id,
            client_host=record.client_host,
            subscribed_topic_names=frozenset(record.subscribed_topic_names),
            subscribed_topic_regex=record.subscribed_topic_regex,
            rebalance_timeout_ms=record.rebalance_timeout_ms,
            server_assignor=record.server_assignor,
            classic=record.classic,
        )

    def with_assignment(self, record: CurrentAssignment) -> "ConsumerMember":
        return replace(
            self,
            member_epoch=record.member_epoch,
            previous_member_epoch=record.previous_member_epoch,
            state=MemberState(record.state),
            assigned=record.assigned,
            pending_revocation=record.pending_revocation,
        )

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    @property
    def stale_epoch_error(self) -> ErrorCode:
        """The error for a stale member epoch, in the member's protocol."""
        return ErrorCode.STALE_MEMBER_EPOCH if self.classic is None else ErrorCode.ILLEGAL_GENERATION

    def temporarily_left(self) -> "ConsumerMember":
        """The static member while it is away: it keeps its partitions, with the epoch 0."""
        return replace(
            self,
            member_epoch=STATIC_LEAVE_EPOCH,
            state=MemberState.STABLE,
            assigned=dict.fromkeys(self.assigned, 0),
            pending_revocation=_NOTHING,
        )

    def check_epoch(self, received: int, owned: Partitions | None) -> None:
        """A heartbeat with the previous epoch is accepted when the last response may have been lost."""
        if received == self.member_epoch:
            return
        missed_answer = (
            received == self.previous_member_epoch and owned is not None and owned <= self.assigned.keys()
        )
        if received < self.member_epoch and missed_answer:
            return
        relation = "greater" if received > self.member_epoch else "smaller"
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {relation} member epoch ({received}) than the one known by "
            f"the group coordinator ({self.member_epoch}). "
            "The member must abandon all its partitions and rejoin.",
        )


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a member's reconciliation, and what the member says it owns."""

    epoch: int
    partitions: Partitions
    #: The ids of the subscribed topics.
    subscribed: frozenset[Uuid]
    subscription_changed: bool
    #: None when the member did not say: it may still own everything.
    owned: Partitions | None
    #: Whether no member owns a partition or still has to revoke it.
    is_free: Callable[[Partition], bool]

    def may_own(self, partitions: Mapping[Partition, int]) -> bool:
        return self.owned is None or not self.owned.isdisjoint(partitions)


def reconcile(member: ConsumerMember, target: Target) -> ConsumerMember:
    """The member after its next step towards the target; the same object when there is none."""
    if member.state is MemberState.STABLE:
        if member.member_epoch != target.epoch:
            return _next(member, target)
    elif member.state is MemberState.UNREVOKED_PARTITIONS:
        if target.subscription_changed:
            member = _unsubscribed(member, target)  # there may be more to revoke
        if target.may_own(member.pending_revocation):
            return member
        return _next(member, target)
    else:
        return _next(member, target)
    return _unsubscribed(member, target) if target.subscription_changed else member


def _next(member: ConsumerMember, target: Target) -> ConsumerMember:
    wanted = {partition for partition in target.partitions if partition[0] in target.subscribed}
    kept = {partition: since for partition, since in member.assigned.items() if partition in wanted}
    lost = {partition: since for partition, since in member.assigned.items() if partition not in wanted}
    if lost and target.may_own(lost):
        return replace(
            member,
            previous_member_epoch=member.member_epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            pending_revocation=lost,
        )
    missing = wanted - kept.keys()
    # What this member has just revoked is still its own until this is written, and may be assigned to it
    # again.
    free = {p for p in missing if p in member.pending_revocation or target.is_free(p)}
    kept.update(dict.fromkeys(sorted(free), target.epoch))
    return replace(
        member,
        member_epoch=target.epoch,
        previous_member_epoch=member.member_epoch,
        state=MemberState.STABLE if free == missing else MemberState.UNRELEASED_PARTITIONS,
        assigned=kept,
        pending_revocation=_NOTHING,
    )


def _unsubscribed(member: ConsumerMember, target: Target) -> ConsumerMember:
    """Revokes partitions of unsubscribed topics at once, without waiting for the next target."""
    gone = {p: since for p, since in member.assigned.items() if p[0] not in target.subscribed}
    if not gone:
        return member
    kept = {p: since for p, since in member.assigned.items() if p not in gone}
    if member.state is MemberState.STABLE and not target.may_own(gone):
        return replace(member, assigned=kept)
    return replace(
        member,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned=kept,
        pending_revocation={**member.pending_revocation, **gone},
    )
