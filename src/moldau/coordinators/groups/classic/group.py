"""A classic group: its members, their protocols, its state, and its rules.

``recorded`` is the hard state, written by ``apply_metadata`` alone. Everything else is the rebalance in
progress (who has joined, who waits, the next generation): it is lost when the partition moves, and the
members notice with their next request, as with Kafka.

Replies and timers are not here, but in ``rebalance`` and ``membership``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from moldau.coordinators.groups.group import GroupType
from moldau.coordinators.groups.offsets import CommittedOffset
from moldau.coordinators.groups.operation import Operation, WaitingRequest
from moldau.coordinators.groups.records import GroupMember, GroupMetadata, GroupMetadataTombstone
from moldau.protocol import consumer_protocol
from moldau.protocol.consumer_protocol import ConsumerProtocolSubscription
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.primitives import MalformedMessage

CONSUMER_PROTOCOL_TYPE = "consumer"

#: The protocols of a member with its metadata for each, the preferred one first.
Protocols = tuple[tuple[str, bytes], ...]


class ClassicState(Enum):
    """The values are what DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


#: The states that may follow each state.
VALID_TRANSITIONS: dict[ClassicState, frozenset[ClassicState]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.PREPARING_REBALANCE: frozenset(
        {ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY, ClassicState.DEAD}
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset(
        {ClassicState.STABLE, ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}
    ),
    ClassicState.STABLE: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.DEAD: frozenset(),
}


@dataclass(slots=True)
class Member:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    #: It has not received its first JoinGroup response yet, so it cannot send heartbeats.
    is_new: bool = False

    def metadata(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: set[str]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)


class ClassicGroup:
    type: Final = GroupType.CLASSIC

    def __init__(self, group_id: str, now_ms: int = -1) -> None:
        self.group_id = group_id
        self.established = False
        self.recorded: GroupMetadata | None = None

        self.state = ClassicState.EMPTY
        self.previous_state = ClassicState.EMPTY
        self.state_timestamp_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        #: From instance ids to member ids.
        self.static_members: dict[str, str] = {}
        #: None when it is unknown.
        self.subscribed_topics: frozenset[str] | None = None
        self._supported_protocols: Counter[str] = Counter()

        #: Member ids that were given out, but have not joined yet.
        self.pending_join_members: set[str] = set()
        #: JoinGroup and SyncGroup requests that wait for the rebalance, by member.
        self.awaiting_join: dict[str, WaitingRequest] = {}
        self.awaiting_sync: dict[str, WaitingRequest] = {}
        #: Members of the new generation that have not sent SyncGroup yet.
        self.pending_sync_members: set[str] = set()
        #: While an initial rebalance waits for more members: the current delay and how much may be added.
        self.initial_delay_ms: int = 0
        self.initial_remaining_ms: int = 0
        self.new_member_added = False

    # --- state ----------------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def listed_protocol_type(self) -> str:
        return self.protocol_type or ""

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def is_initial_rebalance(self) -> bool:
        """A group that was empty waits for more members before its first rebalance completes."""
        return self.state is ClassicState.PREPARING_REBALANCE and self.previous_state is ClassicState.EMPTY

    @property
    def have_all_members_joined(self) -> bool:
        return len(self.awaiting_join) == len(self.members) and not self.pending_join_members

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def is_leader(self, member_id: str) -> bool:
        return self.leader == member_id

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a client with these protocols can be a member."""
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        member_count = len(self.members)
        return protocol_type == self.protocol_type and any(
            self._supported_protocols[name] == member_count for name in names
        )

    def select_protocol(self) -> str:
        """The protocol that all members support and most of them prefer."""
        member_count = len(self.members)
        candidates = {name for name, count in self._supported_protocols.items() if count == member_count}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes, key=votes.__getitem__)

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            # A consumer group whose subscriptions cannot be read may read anything.
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    # --- members --------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        self.pending_join_members.discard(member.member_id)

    def update(
        self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def remove(self, member_id: str) -> None:
        """Removes a member or a pending one; the caller answers the requests that it waits for."""
        self.pending_join_members.discard(member_id)
        self.pending_sync_members.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count(member, -1)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def replace_static_member(self, group_instance_id: str, new_member_id: str) -> Member:
        """A static member has restarted: it continues under a new member id."""
        old_member_id = self.static_members[group_instance_id]
        member = self.members.pop(old_member_id)
        member.member_id = new_member_id
        self.members[new_member_id] = member
        self.static_members[group_instance_id] = new_member_id
        if self.leader == old_member_id:
            self.leader = new_member_id
        if old_member_id in self.pending_sync_members:
            self.pending_sync_members.remove(old_member_id)
            self.pending_sync_members.add(new_member_id)
        return member

    def elect_leader_of_joined(self) -> bool:
        """Keeps the leader if it has joined, else takes the first that has. False when nobody has joined."""
        if self.leader in self.awaiting_join:
            return True
        joined = next((member_id for member_id in self.members if member_id in self.awaiting_join), None)
        if joined is not None:
            self.leader = joined
        return joined is not None

    def check_member(self, member_id: str, group_instance_id: str | None) -> None:
        if group_instance_id is not None:
            known = self.static_members.get(group_instance_id)
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if known != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    def _count(self, member: Member, change: int) -> None:
        for name, _ in member.protocols:
            self._supported_protocols[name] += change
            if not self._supported_protocols[name]:
                del self._supported_protocols[name]

    # --- rebalances -----------------------------------------------------------------------------

    def transition_to(self, state: ClassicState, now_ms: int) -> None:
        assert state in VALID_TRANSITIONS[self.state], f"{self.group_id}: {self.state} to {state}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    def start_next_generation(self, now_ms: int) -> None:
        """All members of the next generation have joined."""
        self.generation = 1 if self.generation >= 2**31 - 1 else self.generation + 1
        self.pending_sync_members.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.transition_to(ClassicState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.transition_to(ClassicState.EMPTY, now_ms)
        self.subscribed_topics = self._read_subscriptions()

    def _read_subscriptions(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            metadata = member.metadata(self.protocol_name)
            try:
                topics.update(consumer_protocol.read(ConsumerProtocolSubscription, metadata).topics)
            except MalformedMessage:
                return None
        return frozenset(topics)

    # --- hard state -----------------------------------------------------------------------------

    def metadata(self, assignments: Mapping[str, bytes]) -> GroupMetadata:
        """The record of the group's current state, with these assignments."""
        return GroupMetadata(
            self.group_id,
            self.protocol_type or "",
            self.generation,
            self.protocol_name,
            self.leader,
            self.state_timestamp_ms,
            tuple(
                GroupMember(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    member.rebalance_timeout_ms,
                    member.session_timeout_ms,
                    member.metadata(self.protocol_name),
                    assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ),
        )

    def assignments(self) -> dict[str, bytes]:
        return {member.member_id: member.assignment for member in self.members.values()}

    def apply_metadata(self, record: GroupMetadata) -> None:
        """Applies a record; a rebalance that has started since it was decided is not disturbed."""
        self.recorded = record
        self.established = True
        if self.state is ClassicState.PREPARING_REBALANCE or (
            self.state is ClassicState.COMPLETING_REBALANCE and record.generation != self.generation
        ):
            return
        known = self.members
        self.generation = record.generation
        self.protocol_type = record.protocol_type or None
        self.protocol_name = record.protocol
        self.leader = record.leader
        self.state_timestamp_ms = record.current_state_timestamp_ms
        self.state = ClassicState.STABLE if record.members else ClassicState.EMPTY
        self.members = {
            member.member_id: _restored(member, record.protocol, known.get(member.member_id))
            for member in record.members
        }
        self.static_members = {
            member.group_instance_id: member.member_id
            for member in record.members
            if member.group_instance_id is not None
        }
        self._supported_protocols = Counter(
            name for member in self.members.values() for name, _ in member.protocols
        )
        self.subscribed_topics = self._read_subscriptions()

    def tombstones(self) -> tuple[Any, ...]:
        return (GroupMetadataTombstone(self.group_id),)

    # --- rules ----------------------------------------------------------------------------------

    def check_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_or_epoch: int,
        version: int,
        transactional: bool,
    ) -> None:
        empty = self.state is ClassicState.EMPTY
        if generation_or_epoch < 0 and empty:
            return  # a consumer without group management, or an administrator
        if generation_or_epoch >= 0 or member_id or group_instance_id is not None:
            self.check_member(member_id, group_instance_id)
            if generation_or_epoch != self.generation:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        elif not transactional and not empty:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not transactional and self.state is ClassicState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Everybody may read the offsets of a classic group."""

    def check_offset_delete(self) -> None:
        if not self.is_empty and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            # Only with the consumer protocol it is known which topics are in use.
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def expiry_start_ms(self, committed: CommittedOffset) -> int | None:
        if self.protocol_type is None:
            return committed.commit_timestamp_ms
        if self.is_empty:
            since = self.state_timestamp_ms
            return since if since >= 0 else committed.commit_timestamp_ms
        if self.state is ClassicState.STABLE and self.subscribed_topics is not None:
            return committed.commit_timestamp_ms
        return None

    def committed_by(self, member_id: str, operation: Operation) -> None:
        member = self.members.get(member_id)
        if member is not None and self.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
            operation.set_timer(session_timer(self, member_id), member.session_timeout_ms)


def session_timer(group: ClassicGroup, member_id: str) -> tuple[str, str, str]:
    return ("session", group.group_id, member_id)


def join_timer(group: ClassicGroup) -> tuple[str, str]:
    return ("join", group.group_id)


def sync_timer(group: ClassicGroup) -> tuple[str, str]:
    return ("sync", group.group_id)


def _restored(recorded: GroupMember, protocol: str | None, known: Member | None) -> Member:
    """A member from the log, which has only the selected protocol; a live member keeps its others too."""
    protocols: Protocols = ((protocol or "", recorded.subscription),)
    if known is not None and known.metadata(protocol) == recorded.subscription:
        protocols = known.protocols
    return Member(
        recorded.member_id,
        recorded.group_instance_id,
        recorded.client_id,
        recorded.client_host,
        recorded.rebalance_timeout_ms,
        recorded.session_timeout_ms,
        protocols,
        recorded.assignment,
    )
