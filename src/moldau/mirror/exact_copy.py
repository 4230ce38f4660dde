"""Copying partitions to mirrors that have the same offsets, batch by batch and byte by byte.

Invariant: a mirror is at every moment the beginning of its source: the same batches at the same offsets, up
to some offset. Where the source has rewritten its end (an unclean election) the mirror is cut to what both
have, and where the source has deleted what was not copied yet, that is said loudly and the mirror begins
again behind the hole. A topic that was deleted and made again at the source is another topic, of which
nothing comes into the mirror of the old one.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import EpochEndOffset
from moldau.client.consumer.fetcher import Arrival
from moldau.client.consumer.partition_fetcher import PartitionFetcher
from moldau.client.transport.cluster import Cluster, is_retriable
from moldau.mirror.exact_target import ExactTarget, MirrorPlace, MirrorWrite
from moldau.mirror.rules.throttle import Throttle
from moldau.mirror.source import Bounds, SourceReader, source_bounds, whole_batches
from moldau.mirror.topics import FlowTopics, TopicsChanged
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import encode_batch

log = logging.getLogger("moldau.mirror")

#: How often the beginnings of the sources are looked at, and gaps at their ends.
_BOUNDS_SECONDS = 2.0
_RETRY_SECONDS = 0.2
_LONGEST_RETRY_SECONDS = 5.0


@dataclass(slots=True)
class Progress:
    """How far a partition is copied."""

    position: int = 0
    source_start: int = 0
    source_end: int = 0
    #: The source's leader epoch of the last batch.
    last_epoch: int = -1
    #: Records that the source deleted before they were copied.
    lost: int = 0

    @property
    def lag(self) -> int:
        return max(0, self.source_end - self.position)


class Resync(Exception):
    """The mirror is not where it was thought to be: it has to be looked at again."""


class ExactCopy:
    """Copies some partitions of a flow until it is stopped."""

    def __init__(
        self, name: str, source: Cluster, target: Cluster, topics: FlowTopics, throttle: Throttle
    ) -> None:
        self.name = name
        self.progress: dict[TopicPartition, Progress] = {}
        self.bytes_copied = 0
        self._source = source
        self._target = ExactTarget(target)
        self._topics = topics
        self._throttle = throttle
        self._reader = SourceReader(source, topics, overtaken=self._overtaken)
        self._ends: dict[TopicPartition, int] = {}
        #: Partitions whose leader could not be asked when the copy began.
        self._unreachable: list[TopicPartition] = []
        #: Positions that did not move between two looks though the source goes on behind them.
        self._stuck_at: dict[TopicPartition, int] = {}

    def translate(self, partition: TopicPartition, offset: int) -> tuple[TopicPartition, int] | None:
        """Offsets are the same; no group is ahead of what its mirror has."""
        end = self._ends.get(partition)
        if partition.topic not in self._topics.mirrored or end is None:
            return None
        return self._topics.target_partition(partition), min(offset, end)

    async def prepare_translation(self) -> None:
        """Learns where all mirrors of the flow end, also those that other processes write."""
        partitions = {self._topics.target_partition(p): p for p in self._topics.partitions()}
        places = await self._target.places(list(partitions))
        self._ends = {
            partitions[target]: place.log_end_offset
            for target, place in places.items()
            if isinstance(place, MirrorPlace)
        }

    async def run(self, partitions: list[TopicPartition]) -> None:
        """Copies these partitions of the source; returns when its topics are not those of the flow any more,
        and ends with an error that trying again does not help.
        """
        pause = _RETRY_SECONDS
        while True:
            try:
                await self._reader.start(await self._align(partitions))
                pause = _RETRY_SECONDS
                await self._copy()
            except Resync as why:
                log.info("%s: looking again where the mirrors are: %s", self.name, why)
            except TopicsChanged as why:
                log.warning("%s: looking again at the topics: %s", self.name, why)
                await asyncio.sleep(_RETRY_SECONDS)  # the brokers may not all know yet
                return
            except KafkaError as error:
                if not is_retriable(error) and error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                log.warning("%s: trying again: %s", self.name, error)
                await self._refresh()
            finally:
                await self._reader.stop()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_RETRY_SECONDS)

    async def _refresh(self) -> None:
        for cluster in (self._source, self._target.cluster):
            try:
                await cluster.refresh()
            except KafkaError as error:
                if not is_retriable(error):
                    raise

    def _overtaken(self, partition: TopicPartition, position: int, start: int) -> None:
        progress = self.progress.setdefault(partition, Progress())
        progress.lost += max(0, start - position)
        log.error(
            "%s: %s: records %d to %d are LOST to the mirror: the source deleted them before they were "
            "copied. Raise retention.ms or retention.bytes at the source, or give the mirror more processes.",
            self.name,
            partition,
            position,
            start - 1,
        )

    # Finding the place.

    async def _align(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Where to go on with each partition: mirrors that differ from their source are cut before."""
        targets = {p: self._topics.target_partition(p) for p in partitions}
        positions: dict[TopicPartition, int] = {}
        while True:
            places = await self._places(targets)
            # Asked for after the mirrors: what another process has just copied is at the source for sure.
            bounds = await source_bounds(self._source, partitions)
            await self._raise_epochs(targets, places)
            cuts = await self._cuts(places, bounds)
            await self._reader.check_topics(each.topic for each in partitions)
            if not cuts:
                break
            for partition, offset in cuts.items():
                log.error(
                    "%s: %s: the source no longer has what follows offset %d as it was copied: the mirror "
                    "is cut there (it ended at %d)",
                    self.name,
                    partition,
                    offset,
                    places[partition].log_end_offset,
                )
            await self._target.cut({targets[p]: offset for p, offset in cuts.items()})
        self._unreachable = [partition for partition in partitions if partition not in bounds]
        for partition, place in places.items():
            if partition not in bounds:
                continue
            start, end = bounds[partition]
            position = max(place.log_end_offset, start)
            if place.log_end_offset > 0 and place.log_end_offset < start and place.last_epoch >= 0:
                self._overtaken(partition, place.log_end_offset, start)
            progress = self.progress.setdefault(partition, Progress())
            progress.position, progress.last_epoch = place.log_end_offset, place.last_epoch
            progress.source_start, progress.source_end = start, end
            positions[partition] = position
        await self._follow_bounds(positions)
        return {p: max(offset, self.progress[p].position) for p, offset in positions.items()}

    async def _places(
        self, targets: Mapping[TopicPartition, TopicPartition]
    ) -> dict[TopicPartition, MirrorPlace]:
        outcomes = await self._target.places(list(targets.values()))
        places = {}
        for partition, target in targets.items():
            outcome = outcomes[target]
            if isinstance(outcome, KafkaError):
                raise outcome
            places[partition] = outcome
        return places

    async def _raise_epochs(
        self, targets: Mapping[TopicPartition, TopicPartition], places: Mapping[TopicPartition, MirrorPlace]
    ) -> None:
        """The leader epochs of the target follow those of the source, before a batch has them."""
        await self._source.topics(sorted({p.topic for p in targets}))
        wanted = {}
        for partition, place in places.items():
            known = self._source.partition(partition)
            if known is not None and known.leader_epoch > place.leader_epoch:
                wanted[targets[partition]] = known.leader_epoch
        if wanted:
            await self._target.raise_leader_epochs(wanted)

    async def _cuts(
        self, places: Mapping[TopicPartition, MirrorPlace], bounds: Mapping[TopicPartition, Bounds]
    ) -> dict[TopicPartition, int]:
        """Where mirrors and sources part, for those that do."""
        cuts = {}
        asked = {p: place.last_epoch for p, place in places.items() if place.last_epoch >= 0}
        answers = await Admin(self._source).offsets_for_leader_epochs(asked) if asked else {}
        for partition, place in places.items():
            end = place.log_end_offset
            answer = answers.get(partition)
            if isinstance(answer, EpochEndOffset) and 0 <= answer.end_offset < end:
                cuts[partition] = max(answer.end_offset, place.log_start_offset)
            elif partition in bounds and bounds[partition].end < end:
                cuts[partition] = max(bounds[partition].end, place.log_start_offset)
        return {p: offset for p, offset in cuts.items() if offset < places[p].log_end_offset}

    # Copying.

    async def _copy(self) -> None:
        loop = asyncio.get_running_loop()
        look_at = loop.time() + _BOUNDS_SECONDS
        arrival: asyncio.Task[Arrival] | None = None
        try:
            while True:
                if arrival is None:
                    arrival = loop.create_task(self._reader.next())
                done, _ = await asyncio.wait([arrival], timeout=max(0.0, look_at - loop.time()))
                if done:
                    answer, arrival = arrival.result(), None
                    await self._write(answer)
                    answer.taken()
                if loop.time() >= look_at:
                    await self._look_at_bounds()
                    look_at = loop.time() + _BOUNDS_SECONDS
        finally:
            if arrival is not None:
                arrival.cancel()

    async def _write(self, arrival: Arrival) -> None:
        writes: dict[TopicPartition, MirrorWrite] = {}
        after: dict[TopicPartition, tuple[TopicPartition, int]] = {}
        size = 0
        for part in arrival.parts:
            partition = part.assigned.partition
            progress = self.progress[partition]
            if part.records is None:
                progress.source_start = part.fetch_offset
                continue
            found = whole_batches(part.records, max(progress.position, part.fetch_offset))
            if found is None:
                continue
            target = self._topics.target_partition(partition)
            writes[target] = MirrorWrite(progress.source_start, progress.position, found.records)
            after[target] = partition, found.next_offset
            progress.source_end = max(progress.source_end, part.assigned.high_watermark)
            size += len(found.records)
        if not writes:
            return
        wait = self._throttle.pause(size, asyncio.get_running_loop().time())
        if wait:
            await asyncio.sleep(wait)
        outcomes = await self._target.write(writes)
        again = {t: writes[t] for t, o in outcomes.items() if _needs_epoch(o)}
        if again:
            await self._target.raise_leader_epochs({t: _max_epoch(w.records) for t, w in again.items()})
            outcomes.update(await self._target.write(again))
        for target, outcome in outcomes.items():
            partition, next_offset = after[target]
            if isinstance(outcome, KafkaError):
                if outcome.code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.INVALID_RECORD):
                    raise Resync(str(outcome))
                raise outcome
            if outcome.log_end_offset != next_offset:
                raise Resync(f"{target} ends at {outcome.log_end_offset}, not at {next_offset}")
            self.progress[partition].position = next_offset
            self.progress[partition].last_epoch = outcome.last_epoch
        self.bytes_copied += size

    async def _look_at_bounds(self) -> None:
        if self._unreachable and await source_bounds(self._source, self._unreachable):
            raise Resync("partitions can be read that could not before")
        bounds = await source_bounds(self._source, [p for p in self.progress if p not in self._unreachable])
        await self._reader.check_topics(each.topic for each in bounds)
        for partition, (start, end) in bounds.items():
            progress = self.progress[partition]
            progress.source_start, progress.source_end = start, end
        await self._follow_bounds({p: self.progress[p].position for p in bounds})

    async def _follow_bounds(self, positions: Mapping[TopicPartition, int]) -> None:
        """Mirrors begin where their sources do, and end there too when nothing is left to copy."""
        writes = {}
        for partition in positions:
            progress = self.progress[partition]
            gap = await self._gap(partition)
            write = MirrorWrite(progress.source_start, progress.position, gap)
            writes[self._topics.target_partition(partition)] = (partition, write)
        outcomes = await self._target.write({target: write for target, (_, write) in writes.items()})
        for target, (partition, write) in writes.items():
            outcome = outcomes[target]
            if isinstance(outcome, KafkaError):
                if outcome.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise Resync(str(outcome))
                raise outcome
            self.progress[partition].position = outcome.log_end_offset
            if write.records is not None:
                raise Resync(f"{partition} ends with offsets {write.log_end_offset} on that no record has")

    async def _gap(self, partition: TopicPartition) -> bytearray | None:
        """An empty batch over offsets at the end of the source that no record has: compaction took them.

        Only a fetch of this partition alone tells that from an answer that was full before its turn came.
        """
        progress, assigned = self.progress[partition], self._reader.assigned.get(partition)
        behind = progress.source_start <= progress.position < progress.source_end
        if assigned is None or not behind or assigned.fetch_offset != progress.position:
            return None
        if self._stuck_at.get(partition) != progress.position:
            self._stuck_at[partition] = progress.position
            return None  # perhaps it is just about to come
        fetcher = PartitionFetcher(self._source, partition, purpose="mirror-gap")
        try:
            fetched = await fetcher.fetch(progress.position, 1024 * 1024)
        finally:
            await fetcher.disconnect()
        if len(fetched.records) or fetched.visible_end <= progress.position:
            return None
        return encode_batch(
            [],
            base_offset=progress.position,
            last_offset_delta=fetched.visible_end - 1 - progress.position,
            leader_epoch=max(progress.last_epoch, 0),
        )


def _needs_epoch(outcome: MirrorPlace | KafkaError) -> bool:
    return isinstance(outcome, KafkaError) and outcome.code is ErrorCode.UNKNOWN_LEADER_EPOCH


def _max_epoch(records: memoryview | bytes | bytearray | None) -> int:
    found = whole_batches(memoryview(records or b""), 0)
    return 0 if found is None else found.max_epoch
