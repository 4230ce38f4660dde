"""The body of a source task: polls, transforms, converts, writes, and keeps the place.

Invariant: a place is kept when every record up to it is written or left out on purpose.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from moldau.client.producer.producer import Delivery, Producer
from moldau.connect.connector import (
    Place,
    SourceConnector,
    SourceTask,
    SourceTaskContext,
    TransactionBoundaries,
)
from moldau.connect.records import SourceRecord
from moldau.connect.worker.offsets import offset_key
from moldau.connect.worker.tasks.handling import source_dead_letter
from moldau.connect.worker.tasks.processing import RawRecord, StepFailed, process
from moldau.connect.worker.tasks.running_task import Control
from moldau.connect.worker.tasks.task_parts import TaskParts, ensure_topic, send, settle

#: How long a task rests that found nothing.
IDLE_SECONDS = 0.25
#: For one that waits by itself: enough that a poll which returns at once does no harm.
_BREATH_SECONDS = 0.005
#: How long a task waits for a place to be kept at once.
_KEEP_SECONDS = 60.0


#: Keeps places at once and for good; None forgets one.
Keep = Callable[[Sequence[tuple[Place, Place | None]]], Awaitable[None]]
#: What is done before the task runs; False where the task is to end.
First = Callable[[Keep, Control], Awaitable[bool]]


class SourceBody:
    def __init__(self, parts: TaskParts, connector: SourceConnector, first: First | None = None) -> None:
        self._parts = parts
        self._first = first
        self._connector = connector
        self._topics: set[str] = set()
        self._boundaries: TransactionBoundaries | None = None
        #: Whether records were written that the task has not been told of.
        self._untold = False

    async def __call__(self, control: Control) -> None:
        task = self._connector.make_task()
        self._untold = False
        async with await self._open() as producer:
            if self._first is not None and not await self._first(partial(self._keep, producer), control):
                return
            await asyncio.to_thread(task.start, self._parts.settings, self._context(producer))
            try:
                while await self._ready(producer, control):
                    await self._tell(task, producer)
                    records = await asyncio.to_thread(task.poll)
                    if records:
                        await self._write(producer, records, control)
                        self._untold = type(task).written is not SourceTask.written
                        await self._tell(task, producer)
                    else:
                        await control.rest(_BREATH_SECONDS if task.waits else IDLE_SECONDS)
                await self._tell(task, producer)
            finally:
                await asyncio.to_thread(task.stop)

    async def _tell(self, task: SourceTask, producer: Producer) -> None:
        """Tells a task that wants to know that its records are written; not amid a transaction, which may
        still be aborted."""
        if self._untold and not producer.in_transaction:
            self._untold = False
            await asyncio.to_thread(task.written)

    async def _open(self) -> Producer:
        return await Producer.open(self._parts.cluster, **self._parts.clients.producer)

    async def _ready(self, producer: Producer, control: Control) -> bool:
        return await control.ready()

    def _context(self, producer: Producer) -> SourceTaskContext:
        parts, loop = self._parts, asyncio.get_running_loop()

        def keep(partition: Place, place: Place) -> None:
            """Called in the thread of the task, which waits."""
            kept = self._keep(producer, [(partition, place)])
            asyncio.run_coroutine_threadsafe(kept, loop).result(_KEEP_SECONDS)

        return SourceTaskContext(
            parts.connector,
            parts.task,
            lambda partition: parts.offsets.get(parts.connector, partition),
            parts.clock.now_ms,
            lambda partition: parts.offsets.kept(parts.connector, partition),
            keep,
            self._boundaries,
        )

    async def _keep(self, producer: Producer, places: Sequence[tuple[Place, Place | None]]) -> None:
        self._parts.offsets.put(self._parts.connector, places)
        await self._parts.offsets.flush()

    async def _write(self, producer: Producer, records: Sequence[SourceRecord], control: Control) -> None:
        self._parts.counts.read += len(records)
        done = 0
        while done < len(records):
            part = records[done:]
            processed = await asyncio.to_thread(process, part, self._parts.processing.outgoing)
            await self._send(producer, processed.done)
            done += len(processed.done)
            self._keep_places(records[:done])
            if processed.failed is not None:
                record = records[done]
                made = await settle(
                    self._parts,
                    processed.failed,
                    record,
                    partial(self._parts.processing.outgoing, record),
                    control,
                    partial(self._bury, producer, record),
                )
                await self._send(producer, [made])
                done += 1
                self._keep_places(records[:done])

    async def _send(self, producer: Producer, made: Sequence[object]) -> None:
        records = [record for record in made if isinstance(record, RawRecord)]
        for topic in dict.fromkeys(record.topic for record in records):
            await self._learn(topic)
        deliveries: list[Delivery] = [await send(producer, record) for record in records]
        for delivery in deliveries:
            await delivery
        self._parts.counts.written += len(records)

    async def _learn(self, topic: str) -> None:
        if topic not in self._topics:
            if self._parts.creation is not None:
                group = self._parts.creation.group_of(topic)
                await ensure_topic(
                    self._parts.cluster, topic, group.partitions, group.replicas, group.configs
                )
            self._topics.add(topic)
        self._parts.saw_topic(topic)  # again and again: it may have been forgotten over REST

    async def _bury(self, producer: Producer, record: SourceRecord, failed: StepFailed) -> None:
        """Kafka leaves such a record of a source out; here it may become a dead letter, as far as it can be
        shown: as text, with the place in the source."""
        parts = self._parts
        if not parts.handling.dead_letters:
            return
        if parts.handling.dead_letters not in self._topics:
            replicas = parts.handling.dead_letter_replicas
            await ensure_topic(parts.cluster, parts.handling.dead_letters, 1, replicas)
            self._topics.add(parts.handling.dead_letters)
        shown = source_dead_letter(failed, record, parts.handling, parts.connector, parts.task)
        await (await send(producer, shown))
        parts.counts.dead_letters += 1

    def _keep_places(self, records: Sequence[SourceRecord]) -> None:
        last: dict[str, tuple[Place, Place]] = {}
        for record in records:
            if record.source_partition is not None and record.source_offset is not None:
                key = offset_key(self._parts.connector, record.source_partition)
                last[key] = (record.source_partition, record.source_offset)
        self._note_places(last.values())

    def _note_places(self, places: Iterable[tuple[Place, Place | None]]) -> None:
        self._parts.offsets.put(self._parts.connector, places)
