"""Clients of committed offsets: what all members share, and consumers without group management.

Invariant: the owner of a partition starts at the last committed offset and only moves forward, so that an
offset that goes back is the broker's fault.
"""

import contextlib
from collections.abc import Iterable, Mapping

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.simulation.checkers import OffsetKey
from tests.simulation.simulated_broker import Disconnected
from tests.simulation.virtual_client import VirtualClient, World

#: A topic and the index of a partition.
Partition = tuple[str, int]


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        found.setdefault(topic, []).append(index)
    return found


class OffsetClient(VirtualClient):
    def __init__(self, world: World, name: str, group: str) -> None:
        super().__init__(world, name)
        self.group = group
        #: Where it is in each partition that it reads; unknown until it was fetched.
        self.positions: dict[Partition, int] = {}
        self.require_stable = False

    async def fetch_positions(
        self, wanted: Iterable[Partition], member_id: str | None = None, epoch: int = -1
    ) -> None:
        """Looks up where to go on in partitions of which it does not know; one try."""
        missing = [partition for partition in wanted if partition not in self.positions]
        if not missing:
            return
        version = 9 if member_id is not None else self.dice.choice([8, 9])
        topics = [OffsetFetchRequestTopics(name=n, partition_indexes=i) for n, i in by_topic(missing).items()]
        group = OffsetFetchRequestGroup(self.group, member_id, epoch, topics)
        promised = {
            partition: self.world.checkers.promised((self.group, *partition)) for partition in missing
        }
        with contextlib.suppress(Disconnected):
            response = await self.call(
                OffsetFetchRequest(groups=[group], require_stable=self.require_stable), version
            )
            for topic in response.groups[0].topics:
                for found in topic.partitions:
                    partition = (topic.name, found.partition_index)
                    if found.error_code == ErrorCode.NONE and response.groups[0].error_code == ErrorCode.NONE:
                        offset = found.committed_offset
                        self.world.checkers.fetched((self.group, *partition), offset, promised[partition])
                        self.positions[partition] = max(offset, 0)

    def committed(self, place: OffsetKey, offset: int) -> None:
        """An offset was acknowledged."""
        self.world.checkers.acknowledged(place, offset)

    def advance(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Reads on a little; where it is then."""
        moved = {}
        for partition in sorted(partitions):
            if partition in self.positions and self.dice.random() < 0.8:
                self.positions[partition] += self.dice.randint(1, 3)
                moved[partition] = self.positions[partition]
        return moved

    async def commit_offsets(
        self,
        offsets: Mapping[Partition, int],
        version: int,
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
    ) -> ErrorCode | None:
        """Commits; the first code that is no success, NONE, or None when nobody knows."""
        topics = [
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(index, offsets[name, index], committed_metadata=self.name)
                    for index in indexes
                ],
            )
            for name, indexes in by_topic(offsets).items()
        ]
        request = OffsetCommitRequest(self.group, generation, member_id, instance_id, topics=topics)
        try:
            response = await self.call(request, version)
        except Disconnected:
            return None
        outcome = ErrorCode.NONE
        for topic in response.topics:
            for result in topic.partitions:
                if result.error_code == ErrorCode.NONE:
                    partition = (topic.name, result.partition_index)
                    self.committed((self.group, *partition), offsets[partition])
                else:
                    outcome = ErrorCode(result.error_code)
        return outcome


class SimpleCommitter(OffsetClient):
    """A consumer that assigns partitions to itself and keeps its offsets in a group without members."""

    def __init__(self, world: World, name: str, group: str, partition: Partition) -> None:
        super().__init__(world, name, group)
        self._partition = partition

    async def live(self) -> None:
        while self.world.open:
            await self.fetch_positions([self._partition])
            moved = self.advance([self._partition])
            if moved:
                await self.commit_offsets(moved, self.dice.choice([2, 5, 7, 8, 9]))
            if self.dice.random() < 0.3:
                self.positions.clear()  # and look again
            await self.sleep(0.1, 1.5)


class Gardener(OffsetClient):
    """Commits an offset and deletes it again, alone or with its group; nobody else touches the place."""

    def __init__(self, world: World, name: str, group: str, partition: Partition) -> None:
        super().__init__(world, name, group)
        self._partition = partition
        self._place: OffsetKey = (group, *partition)

    def committed(self, place: OffsetKey, offset: int) -> None:
        self.world.checkers.became(place, offset)

    async def live(self) -> None:
        while self.world.open:
            work = self.dice.choice([self._plant, self._plant, self._weed, self._clear, self._look])
            with contextlib.suppress(Disconnected):
                await work()
            await self.sleep(0.05, 0.8)

    async def _plant(self) -> None:
        offset = self.dice.randrange(1000)
        self.world.checkers.might_become(self._place, offset)
        await self.commit_offsets({self._partition: offset}, self.dice.choice([2, 6, 9]))

    async def _weed(self) -> None:
        topic, index = self._partition
        topics = [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(index)])]
        self.world.checkers.might_become(self._place, -1)
        response = await self.call(OffsetDeleteRequest(self.group, topics), 0)
        if not response.error_code and not response.topics[0].partitions[0].error_code:
            self.world.checkers.became(self._place, -1)

    async def _clear(self) -> None:
        self.world.checkers.might_become(self._place, -1)
        response = await self.call(DeleteGroupsRequest([self.group]), 2)
        if not response.results[0].error_code:
            self.world.checkers.became(self._place, -1)

    async def _look(self) -> None:
        topics = [OffsetFetchRequestTopics(name=self._partition[0], partition_indexes=[self._partition[1]])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(self.group, None, -1, topics)])
        response = await self.call(request, 9)
        if not response.groups[0].error_code:
            self.world.checkers.looked(
                self._place, response.groups[0].topics[0].partitions[0].committed_offset
            )
