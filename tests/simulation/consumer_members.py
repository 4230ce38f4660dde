"""Members of consumer groups (KIP-848), which send ConsumerGroupHeartbeat only.

Invariant: a member revokes partitions before it reports that, owns only what was assigned to it, sends a full
heartbeat again after a lost response, and gives up everything when it is fenced.
"""

from typing import Any

from moldau.base.names import Uuid
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.simulation.offset_clients import OffsetClient, Partition
from tests.simulation.simulated_broker import Disconnected
from tests.simulation.simulated_partitions import topic_id
from tests.simulation.virtual_client import RETRIABLE, Gone, World

_REPLACED = (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID)


class ConsumerMember(OffsetClient):
    def __init__(
        self,
        world: World,
        name: str,
        group: str,
        topics: list[str],
        *,
        instance_id: str | None = None,
    ) -> None:
        super().__init__(world, name, group)
        self.topics = topics
        self.instance_id = instance_id
        self.member_id = f"{name}-{self.dice.getrandbits(64):x}"
        self.epoch = 0
        #: What it reads, by topic ids as the protocol has it.
        self.owned: set[tuple[Uuid, int]] = set()
        self._told: set[tuple[Uuid, int]] | None = None
        self._unheard = False
        self._names = {topic_id(topic): topic for topic in (*topics, "grow")}
        #: Whether it also reads whatever a regular expression matches.
        self.curious = True
        self._expression: str | None = None
        self._assignor = self.dice.choice([None, "range", "uniform"])

    @property
    def reads(self) -> list[Partition]:
        return sorted((self._names[topic], index) for topic, index in self.owned)

    async def live(self) -> None:
        while self.world.open:
            await self.beat()
            self._work()
            if self.epoch > 0:
                await self.fetch_positions(self.reads, self.member_id, self.epoch)
            if self.epoch > 0 and self.dice.random() < 0.5:
                await self.progress()
            if self.curious and self.dice.random() < 0.03:
                self._expression = self.dice.choice([None, "gr.*", "[gx]row"])
                self._unheard = True
            await self.sleep(0.1, 1.5)
            if self.dice.random() < 0.01:
                await self.leave()
        await self.leave()

    # --- heartbeats -------------------------------------------------------------------------------

    async def beat(self) -> None:
        full = self.epoch == 0 or self._unheard or self.dice.random() < 0.2
        request = ConsumerGroupHeartbeatRequest(self.group, self.member_id, self.epoch, self.instance_id)
        if full:
            request.rebalance_timeout_ms = 8_000
            request.subscribed_topic_names = list(self.topics)
            request.subscribed_topic_regex = self._expression or ""
            request.server_assignor = self._assignor
        if full or self._told is not None:
            request.topic_partitions = self._topic_partitions()
        try:
            response = await self.call(request, 1)
        except Disconnected:
            self._unheard, self._told = True, None
            return
        self._hear(response)

    def _topic_partitions(self) -> list[TopicPartitions]:
        by_id: dict[Uuid, list[int]] = {}
        for topic, index in sorted(self.owned):
            by_id.setdefault(topic, []).append(index)
        return [TopicPartitions(topic, indexes) for topic, indexes in by_id.items()]

    def _hear(self, response: Any) -> None:
        code = ErrorCode(response.error_code)
        if code in RETRIABLE:
            self._unheard, self._told = True, None
            return
        self._unheard = False
        if code is not ErrorCode.NONE:
            self._start_again()
            if code in _REPLACED:
                raise Gone
            return
        self.epoch = response.member_epoch
        if response.assignment is not None:
            topics = response.assignment.topic_partitions
            self._told = {(topic.topic_id, index) for topic in topics for index in topic.partitions}
        elif self._told is not None and self.owned == self._told:
            self._told = None

    def _start_again(self) -> None:
        self.epoch = 0
        self._told = None
        self._keep(set())

    def _keep(self, kept: set[tuple[Uuid, int]]) -> None:
        self.owned = kept
        known = set(self.reads)
        self.positions = {partition: at for partition, at in self.positions.items() if partition in known}

    def _work(self) -> None:
        """What takes a while in real consumers: letting go first, taking then."""
        if self._told is None:
            return
        if self.owned - self._told:
            self._keep(self.owned & self._told)
        else:
            self._keep(self.owned | self._told)

    # --- offsets ----------------------------------------------------------------------------------

    async def progress(self) -> bool:
        moved = self.advance(self.reads)
        if moved:
            code = await self.commit_offsets(moved, 9, self.member_id, self.epoch, self.instance_id)
            if code is ErrorCode.UNKNOWN_MEMBER_ID:
                self._start_again()
        return True

    async def leave(self) -> None:
        """For good, or as a static member that means to come back."""
        if self.epoch == 0:
            return
        epoch = -2 if self.instance_id is not None and self.dice.random() < 0.7 else -1
        self._keep(set())
        request = ConsumerGroupHeartbeatRequest(self.group, self.member_id, epoch, self.instance_id)
        try:
            await self.call(request, 1)
        except Disconnected:
            return
        finally:
            self._start_again()
