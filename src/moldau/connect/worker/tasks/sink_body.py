"""The body of a sink task: reads as a member of the group ``connect-NAME``, converts, transforms, puts,
commits.

Good records before a bad one reach the sink, and what they are is committed before the task fails.

Invariant: an offset is committed when every record before it was put and flushed, left out, or is a dead
letter.
"""

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial

from moldau.base.names import TopicPartition
from moldau.client.consumer.fetched import FetchedBatch
from moldau.client.groups.classic_membership import MembershipOptions
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.group_consumer import GroupConsumer, RebalanceListener
from moldau.client.producer.producer import Producer
from moldau.connect.config.regex import compile_java
from moldau.connect.connector import SinkConnector, SinkTask, SinkTaskContext
from moldau.connect.errors import JavaError
from moldau.connect.records import SinkRecord, TimestampType
from moldau.connect.worker.tasks.client_options import group_of
from moldau.connect.worker.tasks.handling import dead_letter, refused_records
from moldau.connect.worker.tasks.processing import RawRecord, StepFailed, process
from moldau.connect.worker.tasks.running_task import Control
from moldau.connect.worker.tasks.task_parts import TaskParts, ensure_dead_letters, give_up, send, settle
from moldau.connect.worker.tasks.topic_identity import TopicIdentity
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import TimestampType as WireTimestampType

log = logging.getLogger("moldau.connect.worker")

POLL_MS = 500.0
_TOO_LATE = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
    }
)
_TYPES = {
    WireTimestampType.CREATE_TIME: TimestampType.CREATE_TIME,
    WireTimestampType.LOG_APPEND_TIME: TimestampType.LOG_APPEND_TIME,
}


def instance_of(parts: TaskParts) -> str:
    """The member that a task is in its group, also after its worker died: what starts in its place goes on at
    once, without waiting for the end of its session, and one that still lives is fenced."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", parts.connector)[:100]
    exact = hashlib.sha256(f"{parts.workers}\0{parts.connector}".encode()).hexdigest()[:16]
    return f"{plain}-{parts.task}-{exact}"


def wanted_topics(settings: Mapping[str, str]) -> list[str] | Callable[[Iterable[str]], list[str]]:
    """The topics of a sink, or which of those that there are."""
    topics = settings.get("topics", "").strip()
    if topics:
        return [name.strip() for name in topics.split(",")]
    pattern = compile_java(settings.get("topics.regex", "").strip())
    return lambda names: [name for name in names if pattern.fullmatch(name)]


class SinkBody:
    def __init__(self, parts: TaskParts, connector: SinkConnector) -> None:
        self._parts = parts
        self._connector = connector
        self._identity = TopicIdentity(parts, connector)
        #: Behind what was put of each partition, and what is committed of it.
        self._ends: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._lost: list[TopicPartition] = []
        #: Records that the task could not write.
        self._refused: list[tuple[SinkRecord, JavaError]] = []

    async def __call__(self, control: Control) -> None:
        parts = self._parts
        task = self._connector.make_task()
        async with AsyncExitStack() as stack:
            letters = await self._open_dead_letters(stack)
            consumer = await stack.enter_async_context(
                GroupConsumer(
                    parts.cluster,
                    group_of(parts.connector, parts.settings),
                    wanted_topics(parts.settings),
                    membership=MembershipOptions(group_instance_id=instance_of(parts), leaves_for_good=True),
                    listener=RebalanceListener(revoked=self._lost.extend),
                    auto_commit=False,
                    metadata_max_age_ms=10_000,
                    **parts.clients.consumer,
                )
            )
            context = SinkTaskContext(
                parts.connector,
                parts.task,
                parts.clock.now_ms,
                lambda record, error: self._refused.append((record, error)),
            )
            await asyncio.to_thread(task.start, parts.settings, context)
            try:
                while await control.ready():
                    batches = await consumer.next_batches(
                        timeout_ms=POLL_MS, max_records=parts.clients.max_poll_records
                    )
                    await self._let_go(task)
                    if batches:
                        await self._handle(task, consumer, letters, batches, control)
                    else:
                        await asyncio.to_thread(task.idle)
                        await self._bury_refused(letters, ())
                        await self._commit_kept(task, consumer)
            finally:
                await asyncio.to_thread(task.stop)

    async def _open_dead_letters(self, stack: AsyncExitStack) -> Producer | None:
        handling = self._parts.handling
        if not handling.dead_letters:
            return None
        await ensure_dead_letters(self._parts)
        producer = await Producer.open(self._parts.cluster, **self._parts.clients.producer)
        return await stack.enter_async_context(producer)

    async def _handle(
        self,
        task: SinkTask,
        consumer: GroupConsumer,
        letters: Producer | None,
        batches: Sequence[FetchedBatch],
        control: Control,
    ) -> None:
        raws = await asyncio.to_thread(_raw_records, batches)
        self._parts.counts.read += len(raws)
        for topic in {raw.topic for raw in raws}:
            self._parts.saw_topic(topic)
        await self._identity.check({TopicPartition(batch.topic, batch.partition) for batch in batches})
        done = 0
        while done < len(raws):
            processed = await asyncio.to_thread(process, raws[done:], self._parts.processing.incoming)
            part = raws[done : done + len(processed.done)]
            await self._put(task, consumer, letters, processed.done, part)
            done += len(processed.done)
            if processed.failed is not None:
                raw = raws[done]
                made = await settle(
                    self._parts,
                    processed.failed,
                    raw,
                    partial(self._parts.processing.incoming, raw),
                    control,
                    partial(self._bury, letters, raw),
                )
                await self._put(task, consumer, letters, [made], [raw])
                done += 1

    async def _put(
        self,
        task: SinkTask,
        consumer: GroupConsumer,
        letters: Producer | None,
        made: Sequence[object],
        raws: Sequence[RawRecord],
    ) -> None:
        """Writes what was made of ``raws``, and commits that they are dealt with."""
        records = [record for record in made if isinstance(record, SinkRecord)]

        def write() -> None:
            task.put(records)
            task.flush()

        if records:
            await asyncio.to_thread(write)
            self._parts.counts.written += len(records)
            await self._bury_refused(letters, raws)
        for raw in raws:
            assert raw.partition is not None
            assert raw.offset is not None
            self._ends[TopicPartition(raw.topic, raw.partition)] = raw.offset + 1
        await self._commit_kept(task, consumer)

    async def _let_go(self, task: SinkTask) -> None:
        """Tells the task of partitions that went to others; what it held back of them is read again there."""
        if not self._lost:
            return
        gone = list(self._lost)
        self._lost.clear()
        for partition in gone:
            self._ends.pop(partition, None)
            self._committed.pop(partition, None)
        await asyncio.to_thread(task.revoked, gone)

    async def _commit_kept(self, task: SinkTask, consumer: GroupConsumer) -> None:
        kept = await asyncio.to_thread(task.kept, dict(self._ends))
        new = {
            partition: CommittedOffset(end)
            for partition, end in kept.items()
            if self._committed.get(partition) != end
        }
        if new:
            await _commit(consumer, new)
            self._committed.update({partition: each.offset for partition, each in new.items()})

    async def _bury_refused(self, letters: Producer | None, raws: Sequence[RawRecord]) -> None:
        """Deals with records that the task reported, as with those that a converter refuses."""
        refused, self._refused = self._refused, []
        for failed, raw in refused_records(refused, raws, self._connector.task_class_name):
            give_up(self._parts, failed, raw)
            await self._bury(letters, raw, failed)

    async def _bury(self, letters: Producer | None, raw: RawRecord, failed: StepFailed) -> None:
        if letters is None:
            return
        parts = self._parts
        record = dead_letter(failed, raw, parts.handling, parts.connector, parts.task)
        await (await send(letters, record))
        parts.counts.dead_letters += 1


async def _commit(consumer: GroupConsumer, ends: dict[TopicPartition, CommittedOffset]) -> None:
    """Commits; where the group is in another round already, whoever has the partitions reads these again."""
    try:
        await consumer.commit(ends)
    except KafkaError as error:
        if error.code not in _TOO_LATE and not error.retriable:
            raise
        log.info("a commit came too late: %s", error)


def _raw_records(batches: Sequence[FetchedBatch]) -> list[RawRecord]:
    return [
        RawRecord(
            batch.topic,
            batch.partition,
            None if record.key is None else bytes(record.key),
            None if record.value is None else bytes(record.value),
            tuple((str(name), None if value is None else bytes(value)) for name, value in record.headers),
            record.timestamp,
            record.offset,
            _TYPES[batch.header.timestamp_type],
        )
        for batch in batches
        for record in batch.records()
    ]
