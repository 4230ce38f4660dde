"""Reads the records of partitions that are assigned by hand.

    async with Consumer(cluster) as consumer:
        await consumer.assign({TopicPartition("orders", 0): BEGINNING})  # END, at_offset(42), at_timestamp(…)
        async for record in consumer:
            ...

``batches()`` yields whole batches, which are decoded when asked; with ``until`` it ends there.
``next_batch(timeout_ms=…)`` is the same for one batch and no longer than that, ``batch_at_hand`` for one that
has arrived already. While the caller works,
the next answers are fetched, up to ``prefetch`` of them from each broker. ``position`` is the offset that
the caller gets next.

Invariant: every record of an assigned partition is shown once, in order; what the caller must not see is
left out (``fetched``), what cannot be read raises. A leader that moved is followed.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, ListedOffset
from moldau.client.consumer.fetched import BatchStep, ConsumerRecord, FetchedBatch, read_batches
from moldau.client.consumer.fetcher import Arrival, Assigned, Fetcher
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import KafkaError


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin: at an offset, or at the first record that is not older than a timestamp."""

    offset: int | None = None
    timestamp: int | None = None


BEGINNING = Start(timestamp=EARLIEST)
END = Start(timestamp=LATEST)


def at_offset(offset: int) -> Start:
    return Start(offset=offset)


def at_timestamp(timestamp_ms: int) -> Start:
    """The first record that is not older; the end when there is none."""
    return Start(timestamp=timestamp_ms)


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """The options of a consumer; the defaults are those of Kafka's Java client."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 52_428_800
    partition_max_bytes: int = 1_048_576
    isolation_level: int = READ_UNCOMMITTED
    check_crcs: bool = True
    #: Answers of each broker that may wait for the caller.
    prefetch: int = 2
    #: Where to go on when an offset is not (or no longer) there; None raises OFFSET_OUT_OF_RANGE.
    offset_reset: Start | None = None
    rack_id: str = ""


class Consumer:
    """Takes the fields of ``ConsumerOptions``; ``close`` (or the end of ``async with``) stops fetching."""

    def __init__(self, cluster: Cluster, **options: Any) -> None:
        self.cluster = cluster
        self.options = ConsumerOptions(**options)
        self._arrivals: asyncio.Queue[Arrival | KafkaError] = asyncio.Queue()
        self._fetcher = Fetcher(cluster, self.options, self._arrivals, self._reset)
        self._assigned: dict[TopicPartition, Assigned] = {}
        self._arrival: Arrival | None = None
        self._steps: Iterator[tuple[Assigned, BatchStep]] = iter(())
        #: What is left of the batch that is being read record by record.
        self._reading: Assigned | None = None
        self._records: Iterator[ConsumerRecord] = iter(())

    async def __aenter__(self) -> "Consumer":
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._fetcher.stop()

    async def assign(self, starts: Mapping[TopicPartition, Start]) -> None:
        """Reads these partitions from now on, and no others; raises when one of them is not there."""
        offsets = await self.offsets_of(starts)
        await self._fetcher.stop()
        while not self._arrivals.empty():
            self._arrivals.get_nowait()
        self._arrival, self._steps = None, iter(())
        self._reading, self._records = None, iter(())
        self._assigned = {p: Assigned(p, offset, offset) for p, offset in offsets.items()}
        self._fetcher.start(self._assigned)

    async def seek(self, partition: TopicPartition, start: Start) -> None:
        """Goes on at another place; what was fetched of the partition is dropped."""
        (offset,) = (await self.offsets_of({partition: start})).values()
        assigned = self._assigned[partition]
        assigned.move(offset)
        if self._reading is assigned:
            self._reading, self._records = None, iter(())

    async def offsets_of(self, starts: Mapping[TopicPartition, Start]) -> dict[TopicPartition, int]:
        """The offsets that the places stand for now."""
        asked = {p: s.timestamp for p, s in starts.items() if s.offset is None and s.timestamp is not None}
        level = self.options.isolation_level
        admin = Admin(self.cluster)
        found = await admin.list_offsets(asked, isolation_level=level) if asked else {}
        raise_errors(found)
        none = {p: LATEST for p, o in found.items() if isinstance(o, ListedOffset) and o.offset < 0}
        ends = await admin.list_offsets(none, isolation_level=level) if none else {}
        raise_errors(ends)
        offsets: dict[TopicPartition, int] = {}
        for partition, start in starts.items():
            listed = ends.get(partition) or found.get(partition)
            offsets[partition] = listed.offset if isinstance(listed, ListedOffset) else start.offset or 0
        return offsets

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that the caller gets, if there is one."""
        return self._assigned[partition].position

    def high_watermark(self, partition: TopicPartition) -> int:
        """The end of the partition as the last answer had it; -1 before the first."""
        return self._assigned[partition].high_watermark

    async def next_batch(self, *, timeout_ms: float | None = None) -> FetchedBatch | None:
        """The next batch; None when the time is over before there is one."""
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                while True:
                    step = await self._next_step()
                    if step.batch is not None:
                        return step.batch
        except TimeoutError:
            return None

    def batch_at_hand(self) -> FetchedBatch | None:
        """The next batch, if it has arrived; never waits."""
        while (step := self._step_at_hand()) is not None:
            if step.batch is not None:
                return step.batch
        return None

    async def batches(
        self, *, until: Mapping[TopicPartition, int] | None = None
    ) -> AsyncIterator[FetchedBatch]:
        """Batches for ever, or until each partition named in ``until`` has come to its offset there."""
        while not self._reached(until):
            step = await self._next_step()
            if step.batch is not None:
                yield step.batch

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Records for ever. A new iteration after a ``break`` goes on with the next record."""
        while True:
            assigned = self._reading
            for record in self._records:
                if assigned is not None:
                    assigned.position = record.offset + 1
                yield record
            batch = await self.next_batch()
            assert batch is not None
            self._reading = self._assigned.get(batch.topic_partition)
            self._records = batch.consumer_records()

    def _reached(self, until: Mapping[TopicPartition, int] | None) -> bool:
        if until is None:
            return False
        return all(self._assigned[p].position >= end for p, end in until.items() if p in self._assigned)

    async def _next_step(self) -> BatchStep:
        while (step := self._step_at_hand()) is None:
            self._take(await self._arrivals.get())
        return step

    def _step_at_hand(self) -> BatchStep | None:
        while True:
            for assigned, step in self._steps:
                assigned.position = step.next_offset
                return step
            if self._arrival is not None:
                self._arrival.taken()
                self._arrival = None
            if self._arrivals.empty():
                return None
            self._take(self._arrivals.get_nowait())

    def _take(self, arrival: Arrival | KafkaError) -> None:
        if isinstance(arrival, KafkaError):
            raise arrival
        self._arrival, self._steps = arrival, self._read(arrival)

    def _read(self, arrival: Arrival) -> Iterator[tuple[Assigned, BatchStep]]:
        committed = self.options.isolation_level == READ_COMMITTED
        for part in arrival.parts:
            assigned = part.assigned
            if part.generation != assigned.generation:
                continue
            if part.records is None:
                yield assigned, BatchStep(part.fetch_offset, None)  # the fetcher has jumped here
                continue
            for step in read_batches(
                *assigned.partition,
                part.records,
                fetch_offset=part.fetch_offset,
                aborted_transactions=part.aborted_transactions if committed else None,
                check_crcs=self.options.check_crcs,
            ):
                if part.generation != assigned.generation:
                    break  # the caller has gone elsewhere
                yield assigned, step

    async def _reset(self, partition: TopicPartition) -> int | None:
        """Where to go on with a partition whose offset is not there; None for nowhere."""
        if self.options.offset_reset is None:
            return None
        return (await self.offsets_of({partition: self.options.offset_reset}))[partition]
