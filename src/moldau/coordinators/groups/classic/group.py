"""A classic group: its members, its protocols, its state, and what it allows.

What the log says of the group is ``recorded``, and only ``settle`` writes it. Everything else is the round
that is under way (who has joined, who waits, what the next generation will be): it is lost when the shard
moves, and the members find out by their next request, as with Kafka.

Invariant: rules about one group, in memory; no replies and no alarms here (``rebalance`` and ``membership``
do).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moldau.coordinators.groups.classic.states import CLASSIC_MOVES, ClassicState, GroupType
from moldau.coordinators.groups.decision import Decision, Parked
from moldau.coordinators.groups.offsets import CommittedOffset
from moldau.coordinators.groups.records import GroupMember, GroupMetadata, GroupMetadataTombstone
from moldau.protocol import consumer_protocol
from moldau.protocol.consumer_protocol import ConsumerProtocolSubscription
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.primitives import MalformedMessage

CONSUMER_PROTOCOL_TYPE = "consumer"

#: Names of protocols with the metadata of a member for each, the preferred one first.
Protocols = tuple[tuple[str, bytes], ...]


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
    #: It has never heard its member id in a round that was completed, and so cannot send heartbeats.
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
        #: None when it cannot be known.
        self.subscribed_topics: frozenset[str] | None = None
        self._supported: Counter[str] = Counter()

        #: Members that were given an id and shall come back with it.
        self.pending_members: set[str] = set()
        #: Requests that wait for the end of the round, by member.
        self.joins: dict[str, Parked] = {}
        self.syncs: dict[str, Parked] = {}
        #: Members that have not asked for their assignment yet.
        self.pending_sync: set[str] = set()
        #: While the first round waits for more members: the present delay and what may still be added.
        self.initial_delay_ms: int = 0
        self.initial_remaining_ms: int = 0
        self.new_member_added = False

    # --- what it looks like ---------------------------------------------------------------------

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
    def in_initial_round(self) -> bool:
        """A group that was empty waits a while for all of its members before the first round."""
        return self.state is ClassicState.PREPARING_REBALANCE and self.previous_state is ClassicState.EMPTY

    @property
    def has_everybody_joined(self) -> bool:
        return len(self.joins) == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def is_leader(self, member_id: str) -> bool:
        return self.leader == member_id

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether somebody with these protocols could be a member."""
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        everybody = len(self.members)
        return protocol_type == self.protocol_type and any(
            self._supported[name] == everybody for name in names
        )

    def select_protocol(self) -> str:
        """The protocol that all members know and most of them prefer."""
        everybody = len(self.members)
        candidates = {name for name, count in self._supported.items() if count == everybody}
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
        self.pending_members.discard(member.member_id)

    def update(
        self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def remove(self, member_id: str) -> None:
        """Takes out a member, or one that was still to come; what it waits for is the caller's to answer."""
        self.pending_members.discard(member_id)
        self.pending_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count(member, -1)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def replace_static_member(self, group_instance_id: str, new_member_id: str) -> Member:
        """The process behind an instance id was started again: it goes on under a new member id."""
        old_member_id = self.static_members[group_instance_id]
        member = self.members.pop(old_member_id)
        member.member_id = new_member_id
        self.members[new_member_id] = member
        self.static_members[group_instance_id] = new_member_id
        if self.leader == old_member_id:
            self.leader = new_member_id
        if old_member_id in self.pending_sync:
            self.pending_sync.remove(old_member_id)
            self.pending_sync.add(new_member_id)
        return member

    def elect_leader_of_joined(self) -> bool:
        """The leader stays if it has joined; else the first that has. False when nobody has joined."""
        if self.leader in self.joins:
            return True
        joined = next((member_id for member_id in self.members if member_id in self.joins), None)
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
            self._supported[name] += change
            if not self._supported[name]:
                del self._supported[name]

    # --- rounds ---------------------------------------------------------------------------------

    def move(self, state: ClassicState, now_ms: int) -> None:
        assert state in CLASSIC_MOVES[self.state], f"{self.group_id}: {self.state} to {state}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    def begin_generation(self, now_ms: int) -> None:
        """Everybody who will be in the next generation has joined."""
        self.generation = 1 if self.generation >= 2**31 - 1 else self.generation + 1
        self.pending_sync.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.move(ClassicState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.move(ClassicState.EMPTY, now_ms)
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

    # --- what the log says ----------------------------------------------------------------------

    def metadata(self, assignments: Mapping[str, bytes]) -> GroupMetadata:
        """The record of the group as it is now, with these assignments."""
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

    def settle(self, record: GroupMetadata) -> None:
        """Takes over what the log says; a round that has begun since then goes on from where it is."""
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
        self._supported = Counter(name for member in self.members.values() for name, _ in member.protocols)
        self.subscribed_topics = self._read_subscriptions()

    def tombstones(self) -> tuple[Any, ...]:
        return (GroupMetadataTombstone(self.group_id),)

    # --- what it allows -------------------------------------------------------------------------

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
            return  # a consumer that keeps its offsets here without being a member, or an administrator
        if generation_or_epoch >= 0 or member_id or group_instance_id is not None:
            self.check_member(member_id, group_instance_id)
            if generation_or_epoch != self.generation:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        elif not transactional and not empty:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not transactional and self.state is ClassicState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Anybody may read the offsets of a classic group."""

    def check_offset_delete(self) -> None:
        if not self.is_empty and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            # Only the consumer protocol says which topics are in use.
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

    def committed_by(self, member_id: str, decision: Decision) -> None:
        member = self.members.get(member_id)
        if member is not None and self.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
            decision.ring_in(session_alarm(self, member_id), member.session_timeout_ms)


def session_alarm(group: ClassicGroup, member_id: str) -> tuple[str, str, str]:
    return ("session", group.group_id, member_id)


def join_alarm(group: ClassicGroup) -> tuple[str, str]:
    return ("join", group.group_id)


def sync_alarm(group: ClassicGroup) -> tuple[str, str]:
    return ("sync", group.group_id)


def _restored(recorded: GroupMember, protocol: str | None, known: Member | None) -> Member:
    """A member as the log has it. The log knows one protocol of it; a live member keeps the others too."""
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
