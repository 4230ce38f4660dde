"""Reading a source cluster: raw batches of many partitions, as they come.

Invariant: plain Fetch, so that every Kafka can be a source. Batches of a partition come in order and each
once; what is no longer at the source is said, not skipped in silence. Of a topic that was deleted and made
again nothing comes: that is another topic.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import EARLIEST, LATEST, READ_UNCOMMITTED, ListedOffset
from moldau.client.consumer.consumer import ConsumerOptions
from moldau.client.consumer.fetcher import Arrival, Assigned, Fetcher
from moldau.client.transport.cluster import Cluster
from moldau.mirror.topics import FlowTopics
from moldau.protocol.errors import KafkaError
from moldau.protocol.records import batches

log = logging.getLogger("moldau.mirror")


class Bounds(NamedTuple):
    start: int
    end: int


class WholeBatches(NamedTuple):
    """The complete batches of an answer that are not behind the position."""

    records: memoryview
    first_offset: int
    next_offset: int
    max_epoch: int


async def source_bounds(
    cluster: Cluster, partitions: list[TopicPartition], isolation_level: int = READ_UNCOMMITTED
) -> dict[TopicPartition, Bounds]:
    """Log start offset and high watermark (or last stable offset) of those that can be asked."""
    admin = Admin(cluster)
    starts = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST), isolation_level=isolation_level)
    found = {}
    for partition in partitions:
        start, end = starts.get(partition), ends.get(partition)
        if isinstance(start, ListedOffset) and isinstance(end, ListedOffset):
            found[partition] = Bounds(start.offset, end.offset)
    return found


def whole_batches(records: memoryview, fetch_offset: int) -> WholeBatches | None:
    """None when there is no complete batch that reaches ``fetch_offset``."""
    first, last, next_offset, first_offset, epoch = -1, 0, fetch_offset, fetch_offset, -1
    for position, header in batches(records):
        if header.last_offset < fetch_offset:
            continue
        if first < 0:
            first, first_offset = position, header.base_offset
        last, next_offset = position + header.size, header.last_offset + 1
        epoch = max(epoch, header.partition_leader_epoch)
    if first < 0:
        return None
    return WholeBatches(records[first:last], first_offset, next_offset, epoch)


class SourceReader:
    """Fetches partitions ahead of whoever copies them.

    ``overtaken`` hears of a partition that lost records before they were copied: from which offset on, and
    where reading goes on.
    """

    def __init__(
        self,
        cluster: Cluster,
        topics: FlowTopics,
        *,
        isolation_level: int = READ_UNCOMMITTED,
        overtaken: Callable[[TopicPartition, int, int], None],
        max_wait_ms: int = 250,
        partition_max_bytes: int = 4 * 1024 * 1024,
        max_bytes: int = 16 * 1024 * 1024,
    ) -> None:
        self.cluster = cluster
        self._topics = topics
        self._overtaken = overtaken
        self._options = ConsumerOptions(
            isolation_level=isolation_level,
            max_wait_ms=max_wait_ms,
            partition_max_bytes=partition_max_bytes,
            max_bytes=max_bytes,
            prefetch=2,
        )
        self._arrivals: asyncio.Queue[Arrival | KafkaError] = asyncio.Queue()
        self._fetcher = Fetcher(cluster, self._options, self._arrivals, self._reset)
        self.assigned: dict[TopicPartition, Assigned] = {}

    async def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """Reads these partitions from these offsets on, and no others."""
        await self.stop()
        self.assigned = {p: Assigned(p, offset, offset) for p, offset in positions.items()}
        self._fetcher.start(self.assigned)

    async def stop(self) -> None:
        await self._fetcher.stop()
        while not self._arrivals.empty():
            self._arrivals.get_nowait()

    async def next(self) -> Arrival:
        """The next answer; the error that ended the fetching, or ``TopicsChanged``."""
        arrival = await self._arrivals.get()
        if isinstance(arrival, KafkaError):
            raise arrival
        # The new topic is fetched only once it is known, so nothing of it can come before this is seen.
        self._topics.check(self.cluster, {part.assigned.partition.topic for part in arrival.parts})
        return arrival

    async def check_topics(self, names: Iterable[str]) -> None:
        """Asks whether the source still has the topics that are copied; ``TopicsChanged`` where not."""
        asked = sorted(set(names))
        await self.cluster.topics(asked)
        self._topics.check(self.cluster, asked)

    async def _reset(self, partition: TopicPartition) -> int | None:
        """The offset is not there: behind the source's beginning, or beyond its end."""
        bounds = (await source_bounds(self.cluster, [partition])).get(partition)
        assigned = self.assigned.get(partition)
        if bounds is None or assigned is None or assigned.fetch_offset > bounds.start:
            return None  # beyond the end: who copies has to look what became of the source
        self._overtaken(partition, assigned.fetch_offset, bounds.start)
        return bounds.start
