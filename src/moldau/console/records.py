"""Records of a topic for people: a page of them, and searches through all of them.

Invariant: what is read is bounded by number, by bytes and by time, and masked before it leaves this file.
Reading commits nothing and disturbs no group. A search goes on while the loop serves others: records are
decoded in a thread. Where a page or a search ends, the next one begins: no record falls between them.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from moldau.base.names import TopicPartition
from moldau.client.admin.descriptions import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, ListedOffset
from moldau.client.consumer.consumer import END, Consumer, at_offset
from moldau.client.consumer.fetched import ConsumerRecord
from moldau.console.decoding import Decoded
from moldau.console.expression import Predicate
from moldau.console.masks import HIDDEN, TopicMasks
from moldau.console.workspace import Workspace

#: Records that are read for one page, over all partitions.
_MOST_READ = 2_000
_PAGE_SECONDS = 10.0
#: Keys and values that one page keeps, and one search: records may have megabytes, and more when decoded.
_PAGE_BYTES = 16 * 1024 * 1024
_SEARCH_BYTES = 64 * 1024 * 1024
_DECODED_AT_ONCE = 500
#: How much of one partition an answer of a broker brings.
_PARTITION_BYTES = 512 * 1024
_MAX_HEADERS = 50


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record, decoded and masked."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Decoded
    value: Decoded
    headers: tuple[tuple[str, str], ...]
    size: int

    def as_mapping(self) -> dict[str, Any]:
        """What filters see, and what is downloaded."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp,
            "key": self.key.value,
            "value": self.value.value,
            "headers": self._headers(),
        }

    def _headers(self) -> dict[str, Any]:
        """By name; of a name that comes several times all values are a list."""
        found: dict[str, Any] = {}
        for name, text in self.headers:
            before = found.get(name)
            if name not in found:
                found[name] = text
            elif isinstance(before, list):
                before.append(text)
            else:
                found[name] = [before, text]
        return found


class Found(NamedTuple):
    """Records in the order to show them, and where each partition was left."""

    records: list[ShownRecord]
    positions: dict[TopicPartition, int]
    #: False where the time was over before everything was read.
    complete: bool
    #: Whether there is another page.
    more: bool = False


@dataclass(slots=True)
class Progress:
    """How far a search is."""

    scanned: int = 0
    matched: int = 0
    #: Of the records that fit.
    bytes: int = 0
    done: int = 0
    total: int = 0
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    #: Why it ended; "" while it goes on.
    ended: str = ""

    @property
    def share(self) -> float:
        return 1.0 if not self.total else min(1.0, self.done / self.total)


def prepare(workspace: Workspace, masks: TopicMasks, record: ConsumerRecord) -> ShownRecord:
    """Decodes and masks; may ask the registry, and blocks while it does."""
    topic, headers = record.topic, record.headers
    key = _masked(masks, "key", workspace.decoder.decode(record.key, headers, topic=topic, is_key=True))
    value = _masked(
        masks, "value", workspace.decoder.decode(record.value, headers, topic=topic, is_key=False)
    )
    masked = [(name, masks.header(name, _header(data))) for name, data in headers[:_MAX_HEADERS]]
    return ShownRecord(
        topic, record.partition, record.offset, record.timestamp, key, value, tuple(masked), _size(record)
    )


def _size(record: ConsumerRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")


def _header(data: bytes | None) -> str:
    if data is None:
        return "null"
    try:
        return bytes(data).decode("utf-8")
    except UnicodeDecodeError:
        return bytes(data[:64]).hex(" ")


def _masked(masks: TopicMasks, part: str, decoded: Decoded) -> Decoded:
    if not masks.hides_part(part) or decoded.form == "null":
        return decoded
    if decoded.form in ("avro", "json", "protobuf"):
        return Decoded(masks.applied(part, decoded.value), decoded.form, decoded.schema, decoded.problem)
    return Decoded(HIDDEN, "hidden", decoded.schema)  # no fields to choose from: all of it is hidden


async def ends_of(
    workspace: Workspace, partitions: Iterable[TopicPartition], level: int
) -> dict[TopicPartition, int]:
    """Where a reader ends: before the first open transaction, for one of committed records."""
    wanted = dict.fromkeys(partitions, LATEST)
    if not wanted:
        return {}
    listed = await (await workspace.admin()).list_offsets(wanted, isolation_level=level)
    return {each: found.offset for each, found in listed.items() if isinstance(found, ListedOffset)}


def level_of(everything: bool) -> int:
    return READ_UNCOMMITTED if everything else READ_COMMITTED


async def newest(
    workspace: Workspace,
    masks: TopicMasks,
    ends: Mapping[TopicPartition, int],
    limit: int,
    *,
    level: int = READ_COMMITTED,
) -> Found:
    """The last records before these ends, the newest first; positions are where the ones before them end.

    Compaction, aborted transactions and their markers leave offsets without a record: where there are too few
    it looks further back.
    """
    begins = await workspace.offsets(ends, EARLIEST)
    most = max(1, _MOST_READ // max(1, len(ends)))
    each = min(limit, most)
    while True:
        ranges = {
            partition: (max(begins[partition], end - each), end)
            for partition, end in ends.items()
            if partition in begins and end > begins[partition]
        }
        found = await read_ranges(workspace, ranges, each * max(1, len(ranges)), level, newest=True)
        records, starts, complete = found
        cut = any(start > begins[partition] for partition, (start, _) in ranges.items())
        if len(records) >= limit or each == most or not complete or not cut:
            break
        each = min(each * 8, most)
    chosen = _merged(records, limit, newest_first=True)
    positions = {partition: end for partition, (_, end) in ranges.items()}
    for partition, start in starts.items():
        own = [record.offset for record in chosen if _partition(record) == partition]
        whole = len(own) == sum(1 for record in records if _partition(record) == partition)
        # All that was read of it is shown, or nothing: go on before the window, or at the window's end.
        positions[partition] = start if whole else min(own, default=positions[partition])
    more = any(offset > begins[partition] for partition, offset in positions.items())
    return Found(await _prepared(workspace, masks, chosen), positions, complete, more)


async def onwards(
    workspace: Workspace,
    masks: TopicMasks,
    starts: Mapping[TopicPartition, int],
    limit: int,
    *,
    level: int = READ_COMMITTED,
) -> Found:
    """The records from these offsets on, the oldest first; positions are where the next ones begin."""
    ends = await ends_of(workspace, starts, level)
    begins = await workspace.offsets(starts, EARLIEST)
    each = max(1, min(limit, _MOST_READ // max(1, len(starts))))
    ranges = {
        partition: (max(start, begins.get(partition, 0)), ends[partition])
        for partition, start in starts.items()
        if partition in ends and max(start, begins.get(partition, 0)) < ends[partition]
    }
    records, reached, complete = await read_ranges(workspace, ranges, limit, level, each=each)
    chosen = _merged(records, limit, newest_first=False)
    positions = dict(starts)
    for partition in ranges:
        own = [record.offset for record in chosen if _partition(record) == partition]
        left = sum(1 for record in records if _partition(record) == partition) - len(own)
        if not left:
            positions[partition] = reached.get(partition, starts[partition])
        elif own:
            positions[partition] = max(own) + 1
    more = any(offset < ends.get(partition, 0) for partition, offset in positions.items())
    return Found(await _prepared(workspace, masks, chosen), positions, complete, more)


def _merged(records: list[ConsumerRecord], limit: int, *, newest_first: bool) -> list[ConsumerRecord]:
    """By time, but each partition in the order of its offsets: the next page begins where this one ends."""
    partitions: dict[int, list[ConsumerRecord]] = {}
    for record in records:
        partitions.setdefault(record.partition, []).append(record)
    for own in partitions.values():
        own.sort(key=lambda record: record.offset, reverse=newest_first)
    merged = heapq.merge(*partitions.values(), key=lambda record: record.timestamp, reverse=newest_first)
    return list(islice(merged, limit))


def _partition(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)


async def read_ranges(
    workspace: Workspace,
    ranges: Mapping[TopicPartition, tuple[int, int]],
    limit: int,
    level: int,
    *,
    each: int | None = None,
    newest: bool = False,
) -> tuple[list[ConsumerRecord], dict[TopicPartition, int], bool]:
    """Records of ranges, at most ``each`` of a partition; where each was left; whether time was enough.

    Of more bytes than a page may have the first records are kept. With ``newest`` the last ones are, and
    instead of where each was left one learns where what was kept of it begins.
    """
    if not ranges:
        return [], {}, True
    kept: dict[TopicPartition, deque[ConsumerRecord]] = {partition: deque() for partition in ranges}
    taken = dict.fromkeys(ranges, 0)
    room = dict.fromkeys(ranges, _PAGE_BYTES // len(ranges))
    reached = {partition: start for partition, (start, _) in ranges.items()}
    most = limit if each is None else each

    def is_full(partition: TopicPartition) -> bool:
        return taken[partition] >= most or (room[partition] <= 0 and not newest)

    complete = True
    options = {"isolation_level": level, "partition_max_bytes": _PARTITION_BYTES, "max_wait_ms": 100}
    async with Consumer(await workspace.cluster(), **options) as consumer:
        await consumer.assign({partition: at_offset(start) for partition, (start, _) in ranges.items()})
        try:
            async with asyncio.timeout(_PAGE_SECONDS):
                until = {partition: end for partition, (_, end) in ranges.items()}
                async for batch in consumer.batches(until=until):
                    partition = batch.topic_partition
                    own = kept[partition]
                    for record in batch.consumer_records():
                        if record.offset >= ranges[partition][1] or is_full(partition):
                            break
                        own.append(record)
                        taken[partition] += 1
                        room[partition] -= _size(record)
                        if not newest:
                            reached[partition] = record.offset + 1
                        while newest and room[partition] < 0 and len(own) > 1:
                            gone = own.popleft()
                            room[partition] += _size(gone)
                            reached[partition] = gone.offset + 1
                    if all(is_full(one) or consumer.position(one) >= end for one, end in until.items()):
                        break
        except TimeoutError:
            complete = False
        for partition, (_, end) in ranges.items():
            if not newest and not is_full(partition):
                reached[partition] = max(reached[partition], min(consumer.position(partition), end))
    return [record for own in kept.values() for record in own], reached, complete


async def _prepared(
    workspace: Workspace, masks: TopicMasks, records: list[ConsumerRecord]
) -> list[ShownRecord]:
    return await workspace.blocking(lambda: [prepare(workspace, masks, record) for record in records])


async def search(
    workspace: Workspace,
    masks: TopicMasks,
    starts: Mapping[TopicPartition, int],
    wanted: Predicate,
    *,
    limit: int,
    seconds: float,
    level: int = READ_COMMITTED,
    ends: Mapping[TopicPartition, int] | None = None,
) -> AsyncIterator[tuple[list[ShownRecord], Progress]]:
    """Goes through all records from these offsets to the present end, or to others; yields what fits, and how
    far it is.
    """
    if ends is None:
        ends = await ends_of(workspace, starts, level)
    ranges = {tp: (start, ends[tp]) for tp, start in starts.items() if tp in ends and start < ends[tp]}
    progress = Progress(total=sum(end - start for start, end in ranges.values()), positions=dict(starts))
    deadline = workspace.clock.monotonic() + seconds
    options = {"isolation_level": level, "partition_max_bytes": _PARTITION_BYTES, "max_wait_ms": 100}
    async with Consumer(await workspace.cluster(), **options) as consumer:
        await consumer.assign({tp: at_offset(start) for tp, (start, _) in ranges.items()})
        until = {tp: end for tp, (_, end) in ranges.items()}
        while any(consumer.position(tp) < end for tp, end in until.items()):
            left = deadline - workspace.clock.monotonic()
            batch = await consumer.next_batch(timeout_ms=max(1.0, min(left, 1.0) * 1000))
            found: list[ShownRecord] = []
            progress.positions |= {tp: min(consumer.position(tp), end) for tp, end in until.items()}
            if batch is not None:
                end = until[batch.topic_partition]
                inside = (record for record in batch.consumer_records() if record.offset < end)
                while not progress.ended and (chunk := list(islice(inside, _DECODED_AT_ONCE))):
                    fitting = await workspace.blocking(_chooser(workspace, masks, chunk, wanted))
                    room, place = limit - progress.matched, chunk[-1].offset + 1
                    if len(fitting) >= room:
                        del fitting[room:]
                        place = fitting[-1].offset + 1
                    found += fitting
                    progress.scanned += len(chunk)
                    progress.matched += len(fitting)
                    progress.bytes += sum(each.size for each in fitting)
                    progress.ended = _end_of(progress, limit, deadline - workspace.clock.monotonic(), seconds)
                    if progress.ended:  # what follows in the batch was not looked at
                        progress.positions[batch.topic_partition] = place
            progress.done = sum(progress.positions[tp] - ranges[tp][0] for tp in ranges)
            if not progress.ended:
                progress.ended = _end_of(progress, limit, deadline - workspace.clock.monotonic(), seconds)
            yield found, progress
            if progress.ended:
                return
    progress.done, progress.ended = progress.total, "everything was looked at"
    yield [], progress


def _end_of(progress: Progress, limit: int, left: float, seconds: float) -> str:
    if progress.matched >= limit:
        return f"stopped after {limit} records that fit"
    if progress.bytes >= _SEARCH_BYTES:
        return f"stopped after {_SEARCH_BYTES >> 20} MiB of records that fit"
    return f"stopped after {seconds:.0f} s" if left <= 0 else ""


def _chooser(
    workspace: Workspace, masks: TopicMasks, chunk: list[ConsumerRecord], wanted: Predicate
) -> Callable[[], list[ShownRecord]]:
    def choose() -> list[ShownRecord]:
        prepared = (prepare(workspace, masks, record) for record in chunk)
        return [record for record in prepared if wanted(record.as_mapping())]

    return choose


async def tail(
    workspace: Workspace,
    masks: TopicMasks,
    partitions: Iterable[TopicPartition],
    wanted: Predicate,
    *,
    at_once: int,
    pause_ms: int,
    level: int = READ_COMMITTED,
) -> AsyncIterator[tuple[list[ShownRecord], int]]:
    """New records as they come, and how many there were; an empty list now and then when none comes.

    At most ``at_once`` are decoded of those that come within a pause: the newest of them.
    """
    async with Consumer(await workspace.cluster(), isolation_level=level) as consumer:
        await consumer.assign(dict.fromkeys(partitions, END))
        while True:
            batch = await consumer.next_batch(timeout_ms=2_000)
            if batch is None:
                yield [], 0
                continue
            records = list(batch.consumer_records())
            deadline = workspace.clock.monotonic() + pause_ms / 1000
            while (left := deadline - workspace.clock.monotonic()) > 0:
                more = await consumer.next_batch(timeout_ms=left * 1000)
                if more is not None:
                    records += more.consumer_records()
                    del records[: -10 * at_once]
            came = len(records)
            yield await workspace.blocking(_chooser(workspace, masks, records[-at_once:], wanted)), came


async def one(
    workspace: Workspace, masks: TopicMasks, partition: TopicPartition, offset: int
) -> tuple[ShownRecord, ConsumerRecord] | None:
    """A record by its place; None where there is none."""
    ends = await ends_of(workspace, [partition], READ_UNCOMMITTED)
    begins = await workspace.offsets([partition], EARLIEST)
    if not begins.get(partition, 0) <= offset < ends.get(partition, 0):
        return None
    range_ = {partition: (offset, offset + 1)}
    records, _, _ = await read_ranges(workspace, range_, 1, READ_UNCOMMITTED)
    if not records or records[0].offset != offset:
        return None
    prepared = await _prepared(workspace, masks, records[:1])
    return prepared[0], records[0]
