"""Copying partitions as MirrorMaker 2 does, to any Kafka: new offsets at the target, and a way to translate.

Records are written in transactions, and with each the position at the source is committed as an offset of
the flow's group at the target. So a record is there once, whatever dies in between. The same commit carries
which offsets became which, exact to the record; the offset-syncs topic has it for MirrorMaker's tools.

Invariant: a transaction holds whole batches of the source in order, their positions and their offset runs, or
nothing of it counts. A process that lost its place in the group cannot commit.
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field

from moldau.base.names import TopicPartition, format_uuid
from moldau.client.admin.descriptions import READ_COMMITTED, READ_UNCOMMITTED
from moldau.client.consumer.fetched import AbortFilter
from moldau.client.consumer.fetcher import Arrival
from moldau.client.groups.descriptions import CommittedOffset, ConsumerGroupMetadata
from moldau.client.groups.groups import Groups
from moldau.client.producer.producer import Delivery, Producer
from moldau.client.transport.cluster import Cluster, is_retriable
from moldau.mirror.exact_copy import Progress
from moldau.mirror.functions import load_function
from moldau.mirror.internal_topics import InternalTopics
from moldau.mirror.rebatching import Stretch, source_batches
from moldau.mirror.rules.formats import OffsetSync
from moldau.mirror.rules.properties import FlowSettings
from moldau.mirror.rules.throttle import Throttle
from moldau.mirror.rules.translation import MAX_RUNS_IN_METADATA, OffsetRuns, Run, read_runs, write_runs
from moldau.mirror.source import SourceReader, source_bounds
from moldau.mirror.topics import FlowTopics, TopicsChanged
from moldau.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("moldau.mirror")

_BOUNDS_SECONDS = 2.0
_RETRY_SECONDS = 0.2
_LONGEST_RETRY_SECONDS = 5.0
#: After a commit the next transaction collects so many times as long as the commit took: a trickle of records
#: keeps the target busy with commits for no more than half of the time.
_REST = 1.0
#: Bytes after which a transaction is committed before its time.
_TRANSACTION_BYTES = 32 * 1024 * 1024
#: After these the transaction is aborted and the copy goes on from what is committed.
_START_AGAIN = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    }
)


@dataclass(slots=True)
class _Written:
    """What the open transaction has of one partition."""

    next_offset: int
    batches: list[tuple[Delivery, tuple[Stretch, ...]]] = field(default_factory=list)


class TranslatedCopy:
    """Copies some partitions of a flow until it is stopped."""

    def __init__(
        self,
        settings: FlowSettings,
        source: Cluster,
        target: Cluster,
        topics: FlowTopics,
        throttle: Throttle,
        internal: InternalTopics,
        group: ConsumerGroupMetadata,
    ) -> None:
        self.progress: dict[TopicPartition, Progress] = {}
        self.bytes_copied = 0
        self._settings = settings
        self._source = source
        self._target = target
        self._topics = topics
        self._throttle = throttle
        self._internal = internal
        self._group = group
        self._function = None if settings.function is None else load_function(settings.function)
        self._isolation = READ_COMMITTED if settings.isolation_level == "read_committed" else READ_UNCOMMITTED
        self._reader = SourceReader(
            source, topics, isolation_level=self._isolation, overtaken=self._overtaken
        )
        self._runs: dict[TopicPartition, OffsetRuns] = {}
        #: Partitions whose leader could not be asked when the copy began.
        self._unreachable: list[TopicPartition] = []

    def translate(self, partition: TopicPartition, offset: int) -> tuple[TopicPartition, int] | None:
        """The record that a consumer at ``offset`` of the source reads next, by its place at the target."""
        runs = self._runs.get(partition)
        if partition.topic not in self._topics.mirrored or runs is None or not len(runs):
            return None
        found = runs.translate(offset)
        return None if found is None else (self._topics.target_partition(partition), found)

    async def run(self, partitions: list[TopicPartition]) -> None:
        """Returns when the topics of the source are not those of the flow any more."""
        pause = _RETRY_SECONDS
        while True:
            try:
                await self._session(partitions)
            except TopicsChanged as why:
                log.warning("%s: looking again at the topics: %s", self._settings.name, why)
                await asyncio.sleep(_RETRY_SECONDS)  # the brokers may not all know yet
                return
            except KafkaError as error:
                if not is_retriable(error) and error.code not in _START_AGAIN:
                    raise
                log.warning("%s: going on from what is committed: %s", self._settings.name, error)
                for cluster in (self._source, self._target):
                    with contextlib.suppress(KafkaError):
                        await cluster.refresh()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_RETRY_SECONDS)

    async def _session(self, partitions: list[TopicPartition]) -> None:
        producer = await Producer.open(
            self._target,
            transactional_id=f"{self._group.group_id}-{self._group.member_id}",
            # The records of a process that died are in the way of readers for so long.
            transaction_timeout_ms=2 * max(self._settings.session_ms, self._settings.transaction_ms),
            max_request_bytes=16 * 1024 * 1024,
            stop_at_first_error=True,
        )
        try:
            await self._reader.start(await self._positions(partitions))
            await self._copy(producer)
        finally:
            await self._reader.stop()
            with contextlib.suppress(KafkaError, TimeoutError):
                async with asyncio.timeout(5):
                    if producer.in_transaction:
                        await producer.abort_transaction()
            await producer.close(flush=False)

    def _overtaken(self, partition: TopicPartition, position: int, start: int) -> None:
        self.progress.setdefault(partition, Progress()).lost += max(0, start - position)
        log.error(
            "%s: %s: records %d to %d are LOST to the mirror: the source deleted them before they were "
            "copied. Raise retention.ms or retention.bytes at the source, or give the mirror more processes.",
            self._settings.name,
            partition,
            position,
            start - 1,
        )

    # Where to go on.

    async def _positions(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        bounds = await source_bounds(self._source, partitions, self._isolation)
        await self._reader.check_topics(each.topic for each in partitions)
        targets = {self._topics.target_partition(p): p for p in partitions}
        committed = await Groups(self._target).committed(
            self._group.group_id, list(targets), require_stable=True
        )
        await self._load_runs(targets, committed)
        self._unreachable = [partition for partition in partitions if partition not in bounds]
        positions = {}
        for target, partition in targets.items():
            if partition not in bounds:
                continue
            start, end = bounds[partition]
            found = committed.get(target)
            position = start if self._settings.start == "earliest" else end
            if isinstance(found, KafkaError):
                raise found
            if found is not None:
                position = self._known_position(partition, found, end)
            if found is not None and position < start:
                self._overtaken(partition, position, start)
            positions[partition] = max(position, start)
            progress = self.progress.setdefault(partition, Progress())
            progress.position = positions[partition]
            progress.source_start, progress.source_end = start, end
        return positions

    def _known_position(self, partition: TopicPartition, found: CommittedOffset, end: int) -> int:
        topic_id = format_uuid(self._topics.mirrored[partition.topic].topic_id)
        known_id = found.metadata.partition("|")[0]
        if known_id and known_id != topic_id:
            log.error(
                "%s: topic %s was deleted and made again at the source: its records follow those of the old "
                "one at the target",
                self._settings.name,
                partition.topic,
            )
            self._runs[partition] = OffsetRuns()
            return 0
        if found.offset > end:
            log.error(
                "%s: %s ends at %d at the source, and was copied up to %d: the source has lost records",
                self._settings.name,
                partition,
                end,
                found.offset,
            )
            return end
        return found.offset

    async def _load_runs(
        self,
        targets: dict[TopicPartition, TopicPartition],
        committed: dict[TopicPartition, CommittedOffset | KafkaError],
        *,
        partition_is_ours: bool = True,
    ) -> None:
        """The runs of transactions before: from the offset-syncs topic, and of the last from its commit."""
        wanted = set(targets.values())
        for partition in wanted:
            self._runs.setdefault(partition, OffsetRuns())
        if self._settings.emit_offset_syncs and any(not len(self._runs[p]) for p in wanted):
            syncs: dict[TopicPartition, list[tuple[OffsetSync, bool]]] = {}
            for sync, dense in await self._internal.read_offset_syncs():
                partition = TopicPartition(sync.topic, sync.partition)
                if partition in wanted and not len(self._runs[partition]):
                    syncs.setdefault(partition, []).append((sync, dense))
            for partition, found in syncs.items():
                self._runs[partition] = runs_of_syncs(found)
        lost: list[OffsetSync] = []
        for target, partition in targets.items():
            known = committed.get(target)
            if isinstance(known, CommittedOffset):
                runs = read_runs(known.metadata.partition("|")[2])
                lost += (_sync(partition, run) for run in runs if self._runs[partition].add(*run))
        if lost and self._settings.emit_offset_syncs and partition_is_ours:
            await self._internal.offset_syncs(lost)

    async def prepare_translation(self) -> None:
        """Learns of partitions that other processes copy what these have committed."""
        others = {
            self._topics.target_partition(p): p for p in self._topics.partitions() if p not in self.progress
        }
        if not others:
            return
        for partition in others.values():
            self._runs[partition] = OffsetRuns()
        committed = await Groups(self._target).committed(self._group.group_id, list(others))
        await self._load_runs(others, committed, partition_is_ours=False)

    # Copying.

    async def _copy(self, producer: Producer) -> None:
        loop = asyncio.get_running_loop()
        look_at = loop.time() + _BOUNDS_SECONDS
        arrival: asyncio.Task[Arrival] | None = None
        written: dict[TopicPartition, _Written] = {}
        size, commit_at, rested_at = 0, 0.0, 0.0
        try:
            while True:
                if arrival is None:
                    arrival = loop.create_task(self._reader.next())
                until = min(look_at, commit_at, rested_at) if written else look_at
                done, _ = await asyncio.wait([arrival], timeout=max(0.0, until - loop.time()))
                if done:
                    answer, arrival = arrival.result(), None
                    if not producer.in_transaction:
                        await producer.begin_transaction()
                        commit_at = loop.time() + self._settings.transaction_ms / 1000
                    size += await self._send(producer, answer, written)
                    answer.taken()
                full = size >= _TRANSACTION_BYTES or self._too_many_runs(written)
                # Nothing more to copy at the moment: readers of what is there need not wait for the time.
                quiet = not done and loop.time() >= rested_at
                if written and (full or quiet or loop.time() >= commit_at):
                    began = loop.time()
                    await self._commit(producer, written)
                    rested_at = loop.time() + _REST * (loop.time() - began)
                    written, size = {}, 0
                if loop.time() >= look_at:
                    await self._look_at_bounds()
                    look_at = loop.time() + _BOUNDS_SECONDS
        finally:
            if arrival is not None:
                arrival.cancel()

    async def _send(
        self, producer: Producer, arrival: Arrival, written: dict[TopicPartition, _Written]
    ) -> int:
        """Sends what came; positions move with the batches that have nothing to write too."""
        size = 0
        for part in arrival.parts:
            partition = part.assigned.partition
            position = (
                written[partition].next_offset if partition in written else self.progress[partition].position
            )
            if part.records is None:
                written.setdefault(partition, _Written(part.fetch_offset)).next_offset = part.fetch_offset
                continue
            # Markers are never copied; nothing else is named as aborted where uncommitted records are read.
            aborted = AbortFilter(part.aborted_transactions or ())
            target = self._topics.target_partition(partition)
            here = written.setdefault(partition, _Written(position))
            for batch in source_batches(
                partition.partition, part.records, max(position, part.fetch_offset), aborted, self._function
            ):
                if batch.encoded is not None:
                    more = len(batch.encoded.content)
                    wait = self._throttle.pause(more, asyncio.get_running_loop().time())
                    if wait:
                        await asyncio.sleep(wait)
                    delivery = await producer.send_encoded(target.topic, batch.encoded)
                    here.batches.append((delivery, batch.stretches))
                    size += more
                here.next_offset = batch.next_offset
            progress = self.progress[partition]
            progress.source_end = max(progress.source_end, part.assigned.high_watermark)
        self.bytes_copied += size
        return size

    def _too_many_runs(self, written: dict[TopicPartition, _Written]) -> bool:
        return any(len(each.batches) >= MAX_RUNS_IN_METADATA * 8 for each in written.values())

    async def _commit(self, producer: Producer, written: dict[TopicPartition, _Written]) -> None:
        await producer.flush()
        offsets, runs = {}, {}
        for partition, each in written.items():
            found = await _runs(each)
            runs[partition] = found
            # More runs than fit are in the offset-syncs topic only, once this transaction is committed.
            kept = write_runs(found[-MAX_RUNS_IN_METADATA:])
            topic_id = format_uuid(self._topics.mirrored[partition.topic].topic_id)
            offsets[self._topics.target_partition(partition)] = CommittedOffset(
                each.next_offset, -1, f"{topic_id}|{kept}"
            )
        await producer.send_offsets_to_transaction(offsets, self._group)
        await producer.commit_transaction()
        syncs: list[OffsetSync] = []
        for partition, each in written.items():
            self.progress[partition].position = each.next_offset
            syncs += (_sync(partition, run) for run in runs[partition] if self._runs[partition].add(*run))
        if syncs and self._settings.emit_offset_syncs:
            await self._internal.offset_syncs(syncs)

    async def _look_at_bounds(self) -> None:
        if self._unreachable and await source_bounds(self._source, self._unreachable):
            # Ends this session; the next one has them.
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "partitions can be read that could not before")
        bounds = await source_bounds(self._source, list(self.progress), self._isolation)
        await self._reader.check_topics(each.topic for each in bounds)
        for partition, (start, end) in bounds.items():
            progress = self.progress[partition]
            progress.source_start, progress.source_end = start, end


async def _runs(written: _Written) -> list[Run]:
    """Which source offsets became which, in one transaction."""
    runs = OffsetRuns()
    for delivery, stretches in written.batches:
        base = (await delivery).offset
        for stretch in stretches:
            runs.add(stretch.upstream, base + stretch.place, stretch.length)
    return runs.to_list()


def _sync(partition: TopicPartition, run: Run) -> OffsetSync:
    return OffsetSync(*partition, run.upstream, run.downstream)


def runs_of_syncs(syncs: list[tuple[OffsetSync, bool]]) -> OffsetRuns:
    """Runs from the syncs of one partition: each goes on to the next, as far as both sides allow.

    Of one whose followers may have been compacted away only the one record is known.
    """
    runs = OffsetRuns()
    ordered: list[OffsetSync] = []
    dense = dict(syncs)
    for sync, _ in syncs:
        # One that goes back belongs to a topic that was made anew: what came before is not true any more.
        while ordered and (
            ordered[-1].upstream_offset >= sync.upstream_offset
            or ordered[-1].downstream_offset >= sync.downstream_offset
        ):
            ordered.pop()
        ordered.append(sync)
    for sync, after in zip(ordered, [*ordered[1:], None], strict=True):
        count = 1
        if after is not None and dense[sync]:
            count = min(
                after.upstream_offset - sync.upstream_offset, after.downstream_offset - sync.downstream_offset
            )
        runs.add(sync.upstream_offset, sync.downstream_offset, count, dense[sync])
    return runs
