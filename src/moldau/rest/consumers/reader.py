"""What a consumer instance reads: records one behind another, from partitions of a group or chosen by hand.

A task of its own takes part in the group's rounds and keeps a few batches ready. So a group never waits for a
client that does not poll, and a client that polls waits for its records no longer than it wants to.

Invariant: ``positions`` are the offsets of the records that the client gets next; a record is taken once, in
order, and what is not taken is not lost. What waits for the client is bounded by bytes and by batches.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import raise_errors
from moldau.client.admin.descriptions import READ_COMMITTED, READ_UNCOMMITTED
from moldau.client.consumer.consumer import BEGINNING, END, Consumer, Start, at_offset
from moldau.client.consumer.fetched import ConsumerRecord, FetchedBatch
from moldau.client.groups.classic_membership import MembershipOptions
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.group_consumer import GroupConsumer, RebalanceListener
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.payload import Record
from moldau.rest.consumers.settings import InstanceSettings

log = logging.getLogger("moldau.rest")

Topics = Sequence[str] | Callable[[Iterable[str]], Iterable[str]]

#: What one instance fetches at once: a thousand instances have to fit into memory.
_FETCH_BYTES = 1024 * 1024
_RESETS: dict[str, Start | None] = {"earliest": BEGINNING, "latest": END, "none": None}
#: Topics that a pattern looks for are found within this time.
_METADATA_MAX_AGE_MS = 30_000
#: With so much ready nothing more is taken from the fetcher, which then stops too, until half of it is gone:
#: to wake the task for every batch would cost more than the batch.
_READY_BYTES, _READY_BATCHES = 256 * 1024, 100
#: Small batches are put together up to so many records.
_JOINED_RECORDS = 100
#: After a failure that passes, a moment before the next attempt.
_PAUSE_SECONDS = 0.2


class Ready:
    """Records of one batch that are at hand: those from ``begin`` on.

    Small batches that follow each other may be one here, where nothing tells their records apart.
    """

    __slots__ = ("_batches", "_records", "batch", "begin", "count", "values")

    def __init__(self, batch: FetchedBatch, begin: int = 0) -> None:
        self.batch = batch
        self._batches = [batch]
        self.begin = begin
        #: Where the records have nothing but values: these, at consecutive offsets.
        self.values = batch.plain_values()
        self._records = batch.records() if self.values is None else None
        #: Of all records, those before ``begin`` included.
        self.count = len(self.values or self._records or ())

    def join(self, batch: FetchedBatch) -> bool:
        """Takes in the batch behind, if there are few records so far and neither has more than values."""
        if self.values is None or self.count >= _JOINED_RECORDS:
            return False
        next_header, header = batch.header, self.batch.header
        if (
            next_header.base_offset != header.base_offset + self.count
            or batch.topic_partition != self.batch.topic_partition
            or next_header.partition_leader_epoch != header.partition_leader_epoch
            or next_header.attributes != header.attributes
        ):
            return False
        values = batch.plain_values()
        if values is None:
            return False
        self._batches.append(batch)
        self.values += values
        self.count += len(values)
        return True

    @property
    def records(self) -> list[Record]:
        if self._records is None:
            self._records = [record for batch in self._batches for record in batch.records()]
        return self._records

    def offset(self, place: int) -> int:
        """That of one of the records."""
        if self.values is not None:
            return self.batch.header.base_offset + place
        return self.records[place].offset

    def first_size(self) -> int:
        """Bytes of key and value of the next record."""
        if self.values is not None:
            return len(self.values[self.begin])
        record = self.records[self.begin]
        return len(record.key or b"") + len(record.value or b"")

    def first(self) -> ConsumerRecord:
        """The next record, with all that is known of it."""
        batch, header = self.batch, self.batch.header
        offset, timestamp, key, value, headers = self.records[self.begin]
        return ConsumerRecord(
            batch.topic,
            batch.partition,
            offset,
            timestamp,
            header.timestamp_type,
            key,
            value,
            headers,
            header.partition_leader_epoch,
        )


class Reader:
    """Made by ``subscribed`` or ``assigned``; ``close`` leaves the group."""

    def __init__(self, cluster: Cluster, group_id: str, settings: InstanceSettings) -> None:
        self.positions: dict[TopicPartition, int] = {}
        #: Set while there is something to take, or a failure to raise.
        self.arrived = asyncio.Event()
        self._cluster = cluster
        self._group_id = group_id
        self._settings = settings
        self._group: GroupConsumer | None = None
        self._manual: Consumer | None = None
        self._batches: deque[FetchedBatch] = deque()
        self._ready_bytes = 0
        #: What is left of the batch that is being taken.
        self._at_hand: Ready | None = None
        self._epochs: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        #: Where partitions were when records were first taken that are not to be committed yet.
        self._held: dict[TopicPartition, int] = {}
        self._holds = False
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._failure: KafkaError | None = None
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def subscribed(
        cls, cluster: Cluster, group_id: str, topics: Topics, settings: InstanceSettings
    ) -> "Reader":
        self = cls(cluster, group_id, settings)
        self._group = GroupConsumer(
            cluster,
            group_id,
            topics,
            membership=MembershipOptions(protocol=settings.protocol),
            listener=RebalanceListener(assigned=self._assigned, revoked=self._revoked),
            auto_commit=False,
            metadata_max_age_ms=_METADATA_MAX_AGE_MS,
            offset_reset=_RESETS[settings.offset_reset],
            **_fetching(settings),
        )
        self._start()
        return self

    @classmethod
    async def assigned(
        cls,
        cluster: Cluster,
        group_id: str,
        partitions: Sequence[TopicPartition],
        settings: InstanceSettings,
    ) -> "Reader":
        """Partitions by hand begin where the group has committed, if it has."""
        self = cls(cluster, group_id, settings)
        reset = _RESETS[settings.offset_reset]
        self._manual = Consumer(cluster, offset_reset=reset, **_fetching(settings))
        committed = await Groups(cluster).committed(group_id, partitions)
        raise_errors(committed)
        starts: dict[TopicPartition, Start] = {}
        for partition in partitions:
            found = committed.get(partition)
            if isinstance(found, CommittedOffset):
                starts[partition] = at_offset(found.offset)
            elif reset is not None:
                starts[partition] = reset
            else:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"group {group_id!r} has no offset for {partition}, and auto.offset.reset is none",
                )
        await self._manual.assign(starts)
        self._assigned(partitions)
        self._start()
        return self

    async def close(self) -> None:
        await self._stop()
        if self._group is not None:
            with suppress(KafkaError):
                await self._group.close()
        if self._manual is not None:
            await self._manual.close()

    @property
    def partitions(self) -> list[TopicPartition]:
        return sorted(self.positions)

    # Taking.

    @property
    def at_hand(self) -> Ready | None:
        """The next records; ``look`` may still find some where there are none."""
        return self._at_hand

    def look(self) -> bool:
        """Whether there are records at hand now; raises what keeps the reader from going on."""
        while self._at_hand is None:
            if not self._batches:
                self._raise_failure()
                self.arrived.clear()
                self._wanted.set()
                return False
            batch = self._batches[0]
            found = _opened(batch)  # one that cannot be opened stays where it is, and is told of again
            self._next_ready()
            self._epochs[batch.topic_partition] = batch.header.partition_leader_epoch
            if found.count:
                self._at_hand = found
                while self._batches and found.join(self._batches[0]):
                    self._next_ready()
        return True

    def _next_ready(self) -> FetchedBatch:
        batch = self._batches.popleft()
        self._ready_bytes -= batch.size
        if self._ready_bytes <= _READY_BYTES // 2 and len(self._batches) <= _READY_BATCHES // 2:
            self._wanted.set()
        return batch

    def take(self, count: int = 1) -> None:
        """The first of the records at hand belong to the client."""
        at_hand = self._at_hand
        assert at_hand is not None
        partition = at_hand.batch.topic_partition
        if self._holds:
            self._held.setdefault(partition, self.positions[partition])
        at_hand.begin += count
        self.positions[partition] = at_hand.offset(at_hand.begin - 1) + 1
        if at_hand.begin == at_hand.count:
            self._at_hand = None

    def hold(self) -> None:
        """From here on nothing that is taken is committed, until ``release``."""
        self._holds = True

    def release(self) -> None:
        self._holds, self._held = False, {}

    # Places.

    async def seek(self, places: Mapping[TopicPartition, Start]) -> None:
        """Goes on elsewhere with some partitions; what is ready of them is forgotten."""
        await self._stop()
        try:
            source = self._source
            offsets = await source.offsets_of(places)
            self._batches.clear()
            self._ready_bytes = 0
            self._at_hand = None
            self._wanted.set()
            self.positions |= offsets
            # The task may have been stopped with a batch in its hands: every partition goes back to its
            # place.
            for partition, position in self.positions.items():
                await source.seek(partition, at_offset(position))
        finally:
            self._start()

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset] | None = None) -> None:
        """Commits these offsets, or how far the client has come."""
        given = dict(offsets) if offsets is not None else self.progress()
        if not given:
            return
        if self._group is not None:
            await self._group.commit(given)
        else:
            raise_errors(await Groups(self._cluster).commit(self._group_id, given))
        self._committed |= {partition: each.offset for partition, each in given.items()}

    def progress(self) -> dict[TopicPartition, CommittedOffset]:
        """How far the client has come, where that is not committed."""
        done = {each: self._held.get(each, position) for each, position in self.positions.items()}
        return {
            partition: CommittedOffset(position, self._epochs.get(partition, -1))
            for partition, position in done.items()
            if self._committed.get(partition) != position
        }

    # The task.

    @property
    def _source(self) -> Consumer:
        source = self._manual if self._group is None else self._group.consumer
        assert source is not None
        return source

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._pump(), name="rest-reader")

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def _raise_failure(self) -> None:
        """A failure is told once; the reader then tries again."""
        failure, self._failure = self._failure, None
        if failure is not None:
            self.arrived.clear()
            self._wanted.set()
            if self._task is None or self._task.done():
                self._start()
            raise failure

    async def _pump(self) -> None:
        try:
            while True:
                await self._idle()
                batch = await self._next_batch()
                while batch is not None:
                    self._make_ready(batch)
                    if not self._wanted.is_set():
                        break
                    batch = self._source.batch_at_hand()  # what has arrived with it
        except KafkaError as error:
            self._failure = error
            self.arrived.set()
        except Exception as error:  # a bug of ours: the client hears of it, and the log says which
            log.exception("a reader of group %s failed", self._group_id)
            self._failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(error).__name__}: {error}")
            self.arrived.set()

    def _make_ready(self, batch: FetchedBatch) -> None:
        if batch.topic_partition not in self.positions:
            return
        self._batches.append(batch)
        self._ready_bytes += batch.size
        if self._ready_bytes >= _READY_BYTES or len(self._batches) >= _READY_BATCHES:
            self._wanted.clear()
        self.arrived.set()

    async def _next_batch(self) -> FetchedBatch | None:
        if self._group is None:
            return await self._source.next_batch()
        batch = await self._group.next_batch_or_round()
        if batch is None and self._group.is_round_due:
            await self._round()
        return batch

    async def _idle(self) -> None:
        """While a batch waits for the client there is nothing to fetch, but there may be a round to join."""
        while not self._wanted.is_set():
            if self._group is None:
                await self._wanted.wait()
                return
            create = asyncio.get_running_loop().create_task
            waits = {create(self._wanted.wait()), create(self._group.round_due())}
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in waits:
                    each.cancel()
            if self._group.is_round_due:
                await self._round()

    async def _round(self) -> None:
        """Takes part in the group's round; with automatic commits, what the client has is committed first."""
        assert self._group is not None
        if self._settings.auto_commit and self.positions:
            with suppress(KafkaError):
                await self.commit()
        try:
            await self._group.join()
        except KafkaError as error:
            if not error.retriable:
                raise
            await asyncio.sleep(_PAUSE_SECONDS)

    def _assigned(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self.positions[partition] = self._source.position(partition)

    def _revoked(self, partitions: Sequence[TopicPartition]) -> None:
        gone = set(partitions)
        for partition in gone:
            self.positions.pop(partition, None)
            self._committed.pop(partition, None)
            self._held.pop(partition, None)
        self._batches = deque(each for each in self._batches if each.topic_partition not in gone)
        self._ready_bytes = sum(each.size for each in self._batches)
        if self._at_hand is not None and self._at_hand.batch.topic_partition in gone:
            self._at_hand = None
        self._wanted.set()


def _opened(batch: FetchedBatch) -> Ready:
    try:
        return Ready(batch)
    except KafkaError as error:
        place = f"{batch.topic_partition} cannot be read at offset {batch.header.base_offset}"
        raise KafkaError(error.code, f"{place}: {error.message or error.code.name}") from None


def _fetching(settings: InstanceSettings) -> dict[str, int]:
    return {
        "isolation_level": READ_COMMITTED if settings.committed_only else READ_UNCOMMITTED,
        "max_bytes": _FETCH_BYTES,
        "partition_max_bytes": _FETCH_BYTES,
        "prefetch": 1,
    }
