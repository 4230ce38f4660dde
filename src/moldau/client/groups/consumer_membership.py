"""Membership of one consumer in a group of the newer protocol (KIP-848): heartbeats, and nothing else.

The coordinator shares the partitions out and names each member its own in the answer to a heartbeat. The
member gives up what it shall not have any more, takes what is new, and says so with ``settle``; what
another member has to give up first comes with a later answer. So a member that keeps its partitions never
stops reading.

Invariant: nothing here fetches or knows positions. Of what a member says only the changes are sent; after
a lost answer it sends everything again, because it is not known what arrived.
"""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moldau.base.names import TopicPartition, Uuid, by_topic, format_uuid
from moldau.client.groups.classic_membership import MembershipOptions
from moldau.client.groups.coordinator_connection import CoordinatorConnection
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import coordinator_moved
from moldau.client.groups.messages import commit_request
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

#: The epochs by which a member comes, goes, and goes for a while.
_JOIN, _LEAVE, _LEAVE_FOR_A_WHILE = 0, -1, -2

#: After these the partitions are another's, and a member begins again.
_LOST = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


@dataclass(frozen=True, slots=True)
class _Reported:
    """What this member has last reported to the coordinator."""

    topics: list[str]
    owned: list[TopicPartition]


class ConsumerMembership:
    #: Whether all partitions are given up before a round.
    eager = False

    def __init__(self, cluster: Cluster, group_id: str, options: MembershipOptions) -> None:
        self.group_id = group_id
        self.options = options
        self.member_id = _new_member_id()
        #: The epoch of the member; -1 outside the group.
        self.generation_id = -1
        #: Sharing out is the coordinator's business, watching the topics too.
        self.is_leader = False
        self.shared: dict[str, int] = {}
        self.heartbeat_interval_ms = options.heartbeat_interval_ms
        #: How often the group has removed this member.
        self.times_lost = 0
        self._cluster = cluster
        self._coordinator = CoordinatorConnection(cluster, group_id)
        #: Covers the epoch: it changes with an answer, and goes with the next request.
        self._turn = asyncio.Lock()
        self._topics: list[str] = []
        self._owned: list[TopicPartition] = []
        self._reported: _Reported | None = None
        #: What the coordinator wants this member to read.
        self._target: dict[Uuid, list[int]] = {}
        #: Of the topics that this member had to read: one that is deleted is still given up by its id.
        self._ids: dict[str, Uuid] = {}

    async def join(self, topics: Sequence[str], owned: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Enters the group, or reports other topics to it; returns what this member has to read now."""
        self._topics = sorted(topics)
        while self._reported is None or self._reported.topics != self._topics:
            try:
                await self._cluster.retry(self._heartbeat, retriable=coordinator_moved)
            except KafkaError as error:
                if error.code not in _LOST:
                    raise
                self._lose_membership()
        return await self._wanted()

    async def settle(self, owned: Sequence[TopicPartition]) -> bool:
        """Says what this member reads from now on; True when it has to join again."""
        self._owned = sorted(owned)
        if self._reported is not None and self._reported.owned == self._owned:
            return False
        return await self.beat()

    async def beat(self) -> bool:
        """Sends one heartbeat; True when the member has to join again."""
        try:
            await self._heartbeat()
        except KafkaError as error:
            if coordinator_moved(error):
                return False  # the next one finds the coordinator again
            if error.code not in _LOST:
                raise
            self._lose_membership()
            return True
        return await self._wanted() != self._owned

    async def commit(
        self, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commits as the member of this epoch."""

        async def attempt() -> dict[TopicPartition, KafkaError | None]:
            async with self._turn:
                if self.generation_id < 0:
                    raise KafkaError(
                        ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.group_id!r} has put this member out"
                    )
                request = commit_request(
                    self.group_id,
                    offsets,
                    generation_id=self.generation_id,
                    member_id=self.member_id,
                    group_instance_id=self.options.group_instance_id,
                )
                return await self._coordinator.commit(request)

        return await self._cluster.retry(attempt, retriable=coordinator_moved)

    async def leave(self) -> None:
        """Goes at once instead of when the session is over; a static member says that it may come back."""
        request = None
        if self.generation_id >= 0:
            static = self.options.group_instance_id is not None and not self.options.leaves_for_good
            request = ConsumerGroupHeartbeatRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                member_epoch=_LEAVE_FOR_A_WHILE if static else _LEAVE,
                instance_id=self.options.group_instance_id,
            )
        await self._coordinator.close(request)
        self.generation_id, self._reported, self._owned = -1, None, []

    async def _heartbeat(self) -> None:
        async with self._turn:
            reported, self._reported = self._reported, None  # until the answer is here
            saying = _Reported(self._topics, self._owned)
            answer = await self._coordinator.send(self._request(reported, saying))
            self._coordinator.check(answer.error_code, "a heartbeat", answer.error_message)
            self._reported = saying
            self.generation_id = answer.member_epoch
            self.heartbeat_interval_ms = answer.heartbeat_interval_ms
            if answer.assignment is not None:
                self._target = {t.topic_id: t.partitions for t in answer.assignment.topic_partitions}

    def _request(self, reported: _Reported | None, saying: _Reported) -> ConsumerGroupHeartbeatRequest:
        options = self.options
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=max(self.generation_id, _JOIN),
            instance_id=options.group_instance_id,
        )
        if reported is None:
            request.rebalance_timeout_ms = options.rebalance_timeout_ms
            request.server_assignor = options.server_assignor
        if reported is None or reported.topics != saying.topics:
            request.subscribed_topic_names = saying.topics
        if reported is None or reported.owned != saying.owned:
            owned = by_topic(saying.owned).items()
            request.topic_partitions = [TopicPartitions(self._ids[name], indexes) for name, indexes in owned]
        return request

    async def _wanted(self) -> list[TopicPartition]:
        """The target by names; a topic whose name the cluster does not know (yet) is left for later."""
        if any(self._cluster.topic_name(topic_id) is None for topic_id in self._target):
            await self._cluster.topics(self._topics)
        wanted: list[TopicPartition] = []
        for topic_id, indexes in self._target.items():
            name = self._cluster.topic_name(topic_id)
            if name is not None:
                self._ids[name] = topic_id
                wanted += [TopicPartition(name, index) for index in indexes]
        return sorted(wanted)

    def _lose_membership(self) -> None:
        self.generation_id, self._reported = -1, None
        self._owned, self._target = [], {}
        self.times_lost += 1


def _new_member_id() -> str:
    """As Kafka's clients make them; never with a dash in front, which command lines take for an option."""
    while (made := format_uuid(uuid.uuid4().bytes)).startswith("-"):
        pass
    return made
