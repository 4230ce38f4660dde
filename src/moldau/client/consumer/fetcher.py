"""Fetches ahead of a consumer: one task for each broker that leads something, and one that finds lost
leaders.

Each answer becomes an ``Arrival`` in a queue; ``taken`` makes room for the next one. The offset to fetch
next is read from the headers of the batches alone.

Invariant: a partition is fetched by one task at a time, in order. An error that passes sends the partition
to be routed anew; any other is put into the queue, where the consumer raises it, and ends the fetching.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from moldau.base.names import ZERO_UUID, TopicPartition
from moldau.client.consumer.fetched import end_of
from moldau.client.transport.cluster import Cluster, may_pass
from moldau.client.transport.connection import error_code
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

#: The last version of Fetch that names topics; later ones have their ids.
_LAST_VERSION_WITH_NAMES = 12

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
    #: Grows with every move, so that answers to older requests are told apart.
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
        self._homes: dict[TopicPartition, int] = {}
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
            await self._cluster.hang_up(node_id, self._lane)
        self._tasks.clear()
        self._homes.clear()
        self._missing_since.clear()
        self._router = None

    @property
    def _lane(self) -> str:
        return f"fetch-{id(self)}"  # two consumers must not wait behind each other's long polls

    # Finding leaders.

    def _route(self, *, pause: bool = True) -> None:
        if self._router is None or self._router.done():
            self._router = asyncio.get_running_loop().create_task(self._routing(pause))

    async def _routing(self, pause: bool) -> None:
        """Gives every partition without a home the broker that leads it now."""
        backoff_ms = self._cluster.retry_backoff_ms
        try:
            while lost := [p for p in self._assigned if p not in self._homes]:
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
                if may_pass(error):
                    return
                raise
        for partition in lost:
            try:
                self._move_in(partition, await self._cluster.leader_id(partition))
            except KafkaError as error:
                if not may_pass(error) or (error.code in _MISSING and self._missing_too_long(partition)):
                    raise

    def _missing_too_long(self, partition: TopicPartition) -> bool:
        now = asyncio.get_running_loop().time()
        return now - self._missing_since.setdefault(partition, now) > _MISSING_MS / 1000

    def _move_in(self, partition: TopicPartition, node_id: int) -> None:
        self._homes[partition] = node_id
        task = self._tasks.get(node_id)
        if task is None or task.done():
            self._tasks[node_id] = asyncio.get_running_loop().create_task(self._fetching(node_id))

    def _move_out(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._homes.pop(partition, None)
        self._route()

    # Fetching.

    async def _fetching(self, node_id: int) -> None:
        """Fetches from one broker as long as it leads something."""
        room = asyncio.Semaphore(self._options.prefetch)
        turn = 0
        while True:
            await room.acquire()
            here = [a for p, a in self._assigned.items() if self._homes.get(p) == node_id]
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
                self._arrivals.put_nowait(Arrival(parts, room.release))
            else:
                room.release()
            if failure is not None:
                if may_pass(failure):
                    self._move_out([a.partition for a in here])
                else:
                    self._arrivals.put_nowait(failure)
                return

    async def _fetch(self, node_id: int, here: list[Assigned], parts: list[Part]) -> None:
        """One request; what it brings is added to ``parts``, also when it raises in the middle."""
        connection = await self._cluster.connection(node_id, self._lane)
        asked = {a.partition: (a, a.generation, a.fetch_offset) for a in here}
        request, by_name = self._request(here)
        answer: FetchResponse = await connection.send(
            request, max_version=_LAST_VERSION_WITH_NAMES if by_name else None
        )
        if answer.error_code:
            raise KafkaError(error_code(answer.error_code), f"{connection.address} refused to fetch")
        for topic in answer.responses:
            name = topic.topic or self._cluster.topic_name(topic.topic_id) or ""
            for data in topic.partitions:
                if (found := asked.get(TopicPartition(name, data.partition_index))) is None:
                    continue
                part = await self._take(*found, data)
                if part is not None:
                    parts.append(part)

    def _request(self, here: list[Assigned]) -> tuple[FetchRequest, bool]:
        """The request, and whether it must name its topics because an id is not known."""
        options = self._options
        by_name = False
        topics: dict[str, FetchTopic] = {}
        for assigned in here:
            name, index = assigned.partition
            if (topic := topics.get(name)) is None:
                known = self._cluster.known_topic(name)
                topic_id = ZERO_UUID if known is None else known.topic_id
                by_name = by_name or topic_id == ZERO_UUID
                topics[name] = topic = FetchTopic(topic=name, topic_id=topic_id, partitions=[])
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    fetch_offset=assigned.fetch_offset,
                    partition_max_bytes=options.partition_max_bytes,
                )
            )
        request = FetchRequest(
            max_wait_ms=options.max_wait_ms,
            min_bytes=options.min_bytes,
            max_bytes=options.max_bytes,
            isolation_level=options.isolation_level,
            topics=list(topics.values()),
            rack_id=options.rack_id,
        )
        return request, by_name

    async def _take(
        self, assigned: Assigned, generation: int, fetch_offset: int, data: PartitionData
    ) -> Part | None:
        """What an answer brought for a partition, if anything."""
        if generation != assigned.generation:
            return None  # moved while the answer was on its way
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
        if not may_pass(error):
            raise KafkaError(error.code, f"partition {partition} cannot be read")
        if error.code in _MISSING and self._missing_too_long(partition):
            raise KafkaError(error.code, f"there is no partition {partition} any more")
        self._move_out([partition])
        return None
