"""Membership of one consumer in one classic group: join, sync, heartbeats, commits, leave.

``join`` waits until the group has agreed and returns the partitions of this member; ``beat`` keeps it in the
group, and says whether it has to join again; ``commit`` and ``leave`` are what their names say. A coordinator
that moved is looked for again. ``consumer_membership`` has the same for groups of the newer protocol.

Invariant: nothing here fetches or knows positions. A member that has to join again owns nothing until it
has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moldau.base.names import TopicPartition, by_topic
from moldau.client.groups.assignors import ASSIGNORS
from moldau.client.groups.coordinator_connection import CoordinatorConnection
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import coordinator_moved
from moldau.client.groups.messages import assigned_partitions, commit_request
from moldau.client.transport.cluster import Cluster
from moldau.protocol import consumer_protocol
from moldau.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

_PROTOCOL_TYPE = "consumer"
#: How much longer than the round itself may take its answer is waited for.
_GRACE_MS = 5_000

#: After these a member joins again with the id that it has.
_JOIN_AGAIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})


@dataclass(frozen=True, slots=True)
class MembershipOptions:
    """The defaults are those of Kafka's Java client."""

    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    heartbeat_interval_ms: int = 3_000
    #: In the order in which this member would have them.
    assignors: tuple[str, ...] = ("range", "roundrobin")
    group_instance_id: str | None = None
    #: Whether a static member that closes leaves as others do; one that dies can still be taken over at once.
    leaves_for_good: bool = False
    #: ``classic``, or ``consumer`` (KIP-848): there the coordinator shares out, and says how often to beat.
    protocol: str = "classic"
    #: The assignor of the coordinator that a member of the newer protocol would have.
    server_assignor: str | None = None


class Membership:
    #: Whether all partitions are given up before a round.
    eager = True

    def __init__(self, cluster: Cluster, group_id: str, options: MembershipOptions) -> None:
        self.group_id = group_id
        self.options = options
        self.member_id = ""
        self.generation_id = -1
        #: Whether this member shared the partitions out, and of which topics with how many partitions.
        self.is_leader = False
        self.shared: dict[str, int] = {}
        #: How often the group has removed this member.
        self.times_lost = 0
        #: What this member says of itself to whoever describes the group, from the next round on.
        self.user_data: bytes | None = None
        self._cluster = cluster
        self._coordinator = CoordinatorConnection(cluster, group_id)

    @property
    def heartbeat_interval_ms(self) -> int:
        return self.options.heartbeat_interval_ms

    async def join(self, topics: Sequence[str], owned: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Enters the group, or its next round, and returns what this member has to read."""
        while True:
            try:
                return await self._cluster.retry(
                    lambda: self._round(topics, owned), retriable=coordinator_moved
                )
            except KafkaError as error:
                if error.code == ErrorCode.UNKNOWN_MEMBER_ID:
                    self._lose_membership()
                elif error.code not in _JOIN_AGAIN:
                    raise

    async def settle(self, owned: Sequence[TopicPartition]) -> bool:
        """What a member of the newer protocol says after a round; here the round has said it all."""
        return False

    async def beat(self) -> bool:
        """Sends one heartbeat; True when the member has to join again."""
        request = HeartbeatRequest(
            self.group_id, self.generation_id, self.member_id, self.options.group_instance_id
        )
        generation_id = self.generation_id
        try:
            answer = await self._coordinator.send(request)
            if generation_id == self.generation_id:
                self._coordinator.check(answer.error_code, "a heartbeat")
        except KafkaError as error:
            if coordinator_moved(error):
                return False  # the next one finds the coordinator again
            if error.code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._lose_membership()
            elif error.code not in _JOIN_AGAIN:
                raise
            return True
        return False

    async def commit(
        self, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commits as the member of this generation."""
        request = commit_request(
            self.group_id,
            offsets,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.options.group_instance_id,
        )
        return await self._cluster.retry(
            lambda: self._coordinator.commit(request), retriable=coordinator_moved
        )

    async def leave(self) -> None:
        """Goes at once instead of when the session is over. A static member stays: it may come back."""
        request = None
        static = self.options.group_instance_id
        if self.member_id and (static is None or self.options.leaves_for_good):
            identity = MemberIdentity(self.member_id, static, "the consumer is being closed")
            request = LeaveGroupRequest(self.group_id, self.member_id, [identity])
        await self._coordinator.close(request)
        self.member_id, self.generation_id = "", -1

    # A round.

    async def _round(self, topics: Sequence[str], owned: Sequence[TopicPartition]) -> list[TopicPartition]:
        joined = await self._join(topics, owned)
        self.generation_id = joined.generation_id
        self.is_leader = joined.leader == self.member_id
        assignments: list[SyncGroupRequestAssignment] = []
        if self.is_leader and not joined.skip_assignment:
            assignments = await self._share(joined)
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            group_instance_id=self.options.group_instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        answer = await self._coordinator.send(
            request, timeout_ms=self.options.rebalance_timeout_ms + _GRACE_MS
        )
        self._coordinator.check(answer.error_code, "to hand out partitions")
        return list(assigned_partitions(answer.assignment))

    async def _join(self, topics: Sequence[str], owned: Sequence[TopicPartition]) -> JoinGroupResponse:
        subscription = ConsumerProtocolSubscription(
            topics=sorted(topics),
            user_data=self.user_data,
            owned_partitions=[
                consumer_protocol.TopicPartition(topic, indexes) for topic, indexes in by_topic(owned).items()
            ],
            generation_id=self.generation_id,
        )
        metadata = consumer_protocol.write(subscription)
        options = self.options
        while True:
            request = JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=options.session_timeout_ms,
                rebalance_timeout_ms=options.rebalance_timeout_ms,
                member_id=self.member_id,
                group_instance_id=options.group_instance_id,
                protocol_type=_PROTOCOL_TYPE,
                protocols=[JoinGroupRequestProtocol(name, metadata) for name in options.assignors],
            )
            answer: JoinGroupResponse = await self._coordinator.send(
                request, timeout_ms=options.rebalance_timeout_ms + _GRACE_MS
            )
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
                continue
            self._coordinator.check(answer.error_code, "a member")
            self.member_id = answer.member_id
            return answer

    async def _share(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """What the leader does: partitions for all."""
        read = consumer_protocol.read
        # Static members keep their place over restarts, so they are ordered by what stays the same.
        members = sorted(
            joined.members, key=lambda m: (m.group_instance_id is None, m.group_instance_id or m.member_id)
        )
        wanted = {m.member_id: read(ConsumerProtocolSubscription, bytes(m.metadata)).topics for m in members}
        names = sorted({topic for topics in wanted.values() for topic in topics})
        found = await self._cluster.topics(names) if names else []
        self.shared = {topic.name: len(topic.partitions) for topic in found}
        counts = {topic.name: len(topic.partitions) for topic in found if not topic.error_code}
        shares = ASSIGNORS[joined.protocol_name or ""](wanted, counts)
        return [
            SyncGroupRequestAssignment(member_id, consumer_protocol.write(_assignment(partitions)))
            for member_id, partitions in shares.items()
        ]

    def _lose_membership(self) -> None:
        self.member_id, self.generation_id = "", -1
        self.times_lost += 1


def _assignment(partitions: Sequence[TopicPartition]) -> ConsumerProtocolAssignment:
    return ConsumerProtocolAssignment(
        assigned_partitions=[
            consumer_protocol.TopicPartition(topic, indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    )
