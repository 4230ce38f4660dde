"""Fetches ahead of a consumer: one task for each broker that leads something, and one that finds lost
leaders.

Each answer becomes an ``Arrival`` in a queue; ``taken`` makes way for the next one. The offset to fetch
next is read from the headers of the batches alone.

Invariant: a partition is fetched by one task at a time, in order. After an error that is retriable its
leader is looked for again; any other is put into the queue, where the consumer raises it, and ends the
fetching.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from moldau.base.names import TopicPartition
from moldau.client.consumer.fetch_requests import FetchPosition, fetch_request, fetched_partitions
from moldau.client.consumer.fetched import end_of
from moldau.client.transport.cluster import Cluster, is_retriable
from moldau.client.transport.connection import error_code
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import AbortedTransaction, PartitionData

#: How long a partition may be unknown before that counts as an error: a topic that was just created is
#: announced before its leader has opened it.
_MISSING_MS = 10_000

_MISSING = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class FetchOptions(Protocol):
    """What the fetcher needs of ``ConsumerOptions``."""

    @property
    def max_wait_ms(self) -> int: ...
    @property
    def min_bytes(self) -> int: ...
    @property
    def max_bytes(self) -> int: ...
    @property
    def partition_max_bytes(self) -> int: ...
    @property
    def isolation_level(self) -> int: ...
    @property
    def prefetch(self) -> int: ...
    @property
    def rack_id(self) -> str: ...


@dataclass(slots=True)
class Assigned:
    """A partition that is read: where fetching is, and where the caller is."""

    partition: TopicPartition
    fetch_offset: int
    position: int
    #: Grows with every move, so that answers to older requests can be recognised.
    generation: int = 0
    high_watermark: int = -1

    def move(self, offset: int) -> None:
        self.fetch_offset = self.position = offset
        self.generation += 1


@dataclass(frozen=True, slots=True)
class Part:
    """The bytes of one partition in one answer; None where fetching has jumped to ``fetch_offset``."""

    assigned: Assigned
    generation: int
    fetch_offset: int
    records: memoryview | None
    aborted_transactions: Sequence[AbortedTransaction] | None


@dataclass(frozen=True, slots=True)
class Arrival:
    """One answer; ``taken`` is called when the caller is through with it."""

    parts: list[Part]
    taken: Callable[[], None]


class Fetcher:
    def __init__(
        self,
        cluster: Cluster,
        options: FetchOptions,
        arrivals: "asyncio.Queue[Arrival | KafkaError]",
        reset: Callable[[TopicPartition], Awaitable[int | None]],
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._arrivals = arrivals
        self._reset = reset
        self._assigned: Mapping[TopicPartition, Assigned] = {}
        #: The broker that each partition is fetched from; those without one are being routed.
        self._leaders: dict[TopicPartition, int] = {}
        self._missing_since: dict[TopicPartition, float] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._router: asyncio.Task[None] | None = None

    def start(self, assigned: Mapping[TopicPartition, Assigned]) -> None:
        self._assigned = assigned
        self._route(pause=False)

    async def stop(self) -> None:
        """Ends all tasks and the connections that they alone use."""
        tasks = [*self._tasks.values(), *((self._router,) if self._router else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for node_id in self._tasks:
            await self._cluster.disconnect(node_id, self._purpose)
        self._tasks.clear()
        self._leaders.clear()
        self._missing_since.clear()
        self._router = None

    @property
    def _purpose(self) -> str:
        return f"fetch-{id(self)}"  # two consumers must not wait behind each other's long polls

    # Finding leaders.

    def _route(self, *, pause: bool = True) -> None:
        if self._router is None or self._router.done():
            self._router = asyncio.get_running_loop().create_task(self._routing(pause))

    async def _routing(self, pause: bool) -> None:
        """Gives every partition without one the broker that leads it now."""
        backoff_ms = self._cluster.retry_backoff_ms
        try:
            while lost := [p for p in self._assigned if p not in self._leaders]:
                if pause:
                    await asyncio.sleep(backoff_ms / 1000)
                    backoff_ms = min(backoff_ms * 2, self._cluster.retry_backoff_max_ms)
                await self._find_leaders(lost, refresh=pause)
                pause = True
        except KafkaError as error:
            self._arrivals.put_nowait(error)

    async def _find_leaders(self, lost: list[TopicPartition], *, refresh: bool) -> None:
        if refresh:
            try:
                await self._cluster.topics(sorted({p.topic for p in lost}))
            except KafkaError as error:
                if is_retriable(error):
                    return
                raise
        for partition in lost:
            try:
                self._fetch_from(partition, await self._cluster.leader_id(partition))
            except KafkaError as error:
                if not is_retriable(error) or (error.code in _MISSING and self._missing_too_long(partition)):
                    raise

    def _missing_too_long(self, partition: TopicPartition) -> bool:
        now = asyncio.get_running_loop().time()
        return now - self._missing_since.setdefault(partition, now) > _MISSING_MS / 1000

    def _fetch_from(self, partition: TopicPartition, node_id: int) -> None:
        self._leaders[partition] = node_id
        task = self._tasks.get(node_id)
        if task is None or task.done():
            self._tasks[node_id] = asyncio.get_running_loop().create_task(self._fetching(node_id))

    def _leave_leader(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._leaders.pop(partition, None)
        self._route()

    # Fetching.

    async def _fetching(self, node_id: int) -> None:
        """Fetches from one broker as long as it leads something."""
        prefetch = asyncio.Semaphore(self._options.prefetch)
        turn = 0
        while True:
            await prefetch.acquire()
            here = [a for p, a in self._assigned.items() if self._leaders.get(p) == node_id]
            if not here:
                return
            turn %= len(here)
            parts: list[Part] = []
            failure: KafkaError | None = None
            try:
                await self._fetch(node_id, here[turn:] + here[:turn], parts)
            except KafkaError as error:
                failure = error
            turn += 1  # an answer may be full before all had their part: the next begins with another one
            if parts:  # what came before the failure is not asked for again
                self._arrivals.put_nowait(Arrival(parts, prefetch.release))
            else:
                prefetch.release()
            if failure is not None:
                if is_retriable(failure):
                    # Those too that have come to this broker since the request was sent: this task ends.
                    self._leave_leader([p for p, leader in self._leaders.items() if leader == node_id])
                else:
                    self._arrivals.put_nowait(failure)
                return

    async def _fetch(self, node_id: int, here: list[Assigned], parts: list[Part]) -> None:
        """One request; what it brings is added to ``parts``, also when it raises in the middle."""
        connection = await self._cluster.connection(node_id, self._purpose)
        asked = {a.partition: (a, a.generation, a.fetch_offset) for a in here}
        options = self._options
        request, version = fetch_request(
            self._cluster,
            [FetchPosition(a.partition, a.fetch_offset, options.partition_max_bytes) for a in here],
            isolation_level=options.isolation_level,
            max_bytes=options.max_bytes,
            max_wait_ms=options.max_wait_ms,
            min_bytes=options.min_bytes,
            rack_id=options.rack_id,
        )
        answer = await connection.send(request, max_version=version)
        for partition, data in fetched_partitions(self._cluster, answer, connection.address):
            if (found := asked.get(partition)) is not None:
                part = await self._take(*found, data)
                if part is not None:
                    parts.append(part)

    async def _take(
        self, assigned: Assigned, generation: int, fetch_offset: int, data: PartitionData
    ) -> Part | None:
        """What an answer brought for a partition, if anything."""
        if generation != assigned.generation:
            return None  # moved while the request was in flight
        if data.error_code:
            return await self._failed(assigned, KafkaError(error_code(data.error_code)))
        self._missing_since.pop(assigned.partition, None)
        assigned.high_watermark = data.high_watermark
        records: Any = data.records
        if not records:
            return None
        end = end_of(records, fetch_offset)
        if end == fetch_offset:
            return None
        assigned.fetch_offset = end
        return Part(assigned, generation, fetch_offset, records, data.aborted_transactions)

    async def _failed(self, assigned: Assigned, error: KafkaError) -> Part | None:
        partition = assigned.partition
        if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
            offset = await self._reset(partition)
            if offset is None:
                raise KafkaError(
                    error.code, f"offset {assigned.fetch_offset} is not in partition {partition}"
                )
            assigned.fetch_offset = offset
            return Part(assigned, assigned.generation, offset, None, None)
        if not is_retriable(error):
            raise KafkaError(error.code, f"partition {partition} cannot be read")
        if error.code in _MISSING and self._missing_too_long(partition):
            raise KafkaError(error.code, f"there is no partition {partition} any more")
        self._leave_leader([partition])
        return None
