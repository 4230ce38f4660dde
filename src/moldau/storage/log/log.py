"""The log of a partition: append, read, look up, roll, flush, truncate.

An append decides everything (validation, producer state) before its one write, and changes state only after
it. A read finds out where the bytes are and does not touch them.

Invariant: used by one thread, never waits. After an error the log is as it was before.
"""

import logging
import struct
from collections.abc import Callable
from typing import TypeVar

from moldau.base.descriptors import OUT_OF_DESCRIPTORS
from moldau.base.names import TopicPartition, Uuid
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import (
    ATTRIBUTES,
    CONTROL_MASK,
    LAST_OFFSET_DELTA,
    LOG_OVERHEAD,
    MAX_TIMESTAMP,
    PRODUCER_ID,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
)
from moldau.storage.errors import CorruptLogError, next_step, repair_steps
from moldau.storage.file_names import INDEX_SUFFIXES, TXN_INDEX_SUFFIX, snapshot_path
from moldau.storage.files import Files, Slice
from moldau.storage.log.config import LogConfig as LogConfig
from moldau.storage.log.flush import MAY_PASS, FlushJob, FlushState
from moldau.storage.log.leader_epoch_cache import LeaderEpochCache
from moldau.storage.log.producer_state import BatchMetadata, ProducerStateEntry, ProducerStates
from moldau.storage.log.replay import (
    apply_marker,
    check_internal_batch,
    collect_aborted,
    load_producer_states,
)
from moldau.storage.log.scan import MAX_RELATIVE_OFFSET
from moldau.storage.log.segment import ASK_ALWAYS, Segment, SegmentInfo
from moldau.storage.log.segments import Segments
from moldau.storage.log.time_lookup import TimestampOffset, max_timestamp, offset_for_timestamp
from moldau.storage.log.trimming import delete_old_segments
from moldau.storage.log.txn_index import AbortedTransaction
from moldau.storage.log.validation import (
    AT_ONCE,
    NO_LIMITS,
    BatchLimits,
    check_and_transform,
    check_batch,
    check_batches_with_offsets,
    offline_error,
    out_of_range,
    own_header,
    transform,
)
from moldau.storage.log.validation import Appended as Appended
from moldau.storage.log.validation import AppendError as AppendError

logger = logging.getLogger("moldau.storage")
_T = TypeVar("_T")

#: Base offset, length and leader epoch: together at the front of a batch, and not covered by its checksum.
_pack_position_in_log = struct.Struct(">qii").pack_into
_new_tuple: Callable[..., "Appended"] = tuple.__new__


class Log:
    def __init__(
        self,
        files: Files,
        topic_partition: TopicPartition,
        topic_id: Uuid | None,
        directory: str,
        config: LogConfig,
        segments: Segments,
        *,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        producers: ProducerStates,
        leader_epochs: LeaderEpochCache,
        changed: bool = True,
        on_failure: Callable[[str, OSError], None] = lambda path, error: None,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.directory = directory
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.producers = producers
        self.leader_epochs = leader_epochs
        #: Why the log is offline; None while it is in use.
        self.offline: str | None = None
        #: The compaction that is running, during which retention deletes nothing.
        self.cleaning: object | None = None
        #: It is being copied to another directory, during which it is not compacted.
        self.moving = False
        #: Called before flushed data is truncated: the lower recovery point must be on disk first.
        self.before_truncation: Callable[[], None] = lambda: None
        #: Called with the new end when the log was cut, or begun anew: what copies it has to follow.
        self.after_truncation: Callable[[int], None] = lambda offset: None
        #: Called when an offset, an epoch or a transaction has changed; None while nobody wants to know.
        self.on_change: Callable[[], None] | None = None
        self._files = files
        self._segments = segments
        self._on_failure = on_failure
        self.flush_state = FlushState(recovery_point)
        #: Whether the log differs from what the index and snapshot files say, so that a close has to write.
        self._changed = changed
        self._config = config
        self.config = config

    # -- configuration and figures

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._configure(self._segments.active)

    def _configure(self, segment: Segment) -> None:
        """Hands the active segment its part of the config."""
        segment.index_interval_bytes = self._config.index_interval_bytes
        segment.max_index_bytes = self._config.segment_index_bytes
        segment.roll_timestamp = ASK_ALWAYS

    @property
    def size(self) -> int:
        return self._segments.size

    @property
    def recovery_point(self) -> int:
        """Everything below it has been flushed."""
        return self.flush_state.recovery_point

    @property
    def last_stable_offset(self) -> int:
        """Where the oldest open transaction begins, else the log end."""
        first_open = self.producers.first_open_offset()
        return self.log_end_offset if first_open is None else first_open

    def active_producers(self) -> list[ProducerStateEntry]:
        return self.producers.active()

    def stable_offset_below(self, high_watermark: int) -> int:
        """The last stable offset that a consumer may see: read_committed ends here."""
        unstable = self.producers.first_unstable_offset(high_watermark, self.log_start_offset)
        return high_watermark if unstable is None else min(unstable, high_watermark)

    @property
    def segments(self) -> Segments:
        return self._segments

    @property
    def first_segment_offset(self) -> int:
        return self._segments.to_list()[0].base_offset

    def segments_info(self) -> list[SegmentInfo]:
        return [segment.info() for segment in self._segments]

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, {self.log_start_offset}..{self.log_end_offset})"

    # -- appending

    def append(
        self,
        records: memoryview,
        leader_epoch: int,
        now_ms: int,
        *,
        produce_version: int = 13,
        internal: bool = False,
    ) -> Appended:
        """Appends the one batch in ``records`` and writes its offset and epoch into that buffer.

        ``internal``: the broker itself has built it, control batches and the records of coordinators; that
        is not checked again.
        After an AppendError nothing has changed, nor after a HeavyBatch: that is for ``check``, in a thread.
        """
        if self.offline is not None:
            raise offline_error(self.topic_partition, self.offline)
        config, topic_partition = self._config, self.topic_partition
        limits = NO_LIMITS if internal else AT_ONCE
        try:
            if internal:
                header = own_header(records, config, topic_partition)
            else:
                header = check_batch(records, config, topic_partition, now_ms, produce_version)
            if (
                config.log_append_time
                or config.compression is not None
                or header[ATTRIBUTES] & TIMESTAMP_TYPE_MASK
            ):
                records, header = transform(records, header, config, topic_partition, now_ms, limits)
        except KafkaError as error:
            raise self._append_error(error) from None
        return self.append_checked(records, header, leader_epoch, now_ms, produce_version, internal=internal)

    def check(
        self, records: memoryview, now_ms: int, produce_version: int, limits: BatchLimits
    ) -> tuple[memoryview, BatchHeader]:
        """A batch as ``append_checked`` takes it; works in any thread."""
        known = self._config, self.topic_partition
        try:
            return check_and_transform(records, *known, now_ms, produce_version, limits)
        except KafkaError as error:
            raise self._append_error(error) from None

    def append_checked(
        self,
        records: memoryview,
        header: BatchHeader,
        leader_epoch: int,
        now_ms: int,
        produce_version: int = 13,
        *,
        internal: bool = False,
    ) -> Appended:
        """Appends a batch that was found right, unless its producer has sent it before."""
        if self.offline is not None:
            raise offline_error(self.topic_partition, self.offline)
        duplicate: BatchMetadata | None = None
        if header[PRODUCER_ID] >= 0:
            try:
                if internal:
                    check_internal_batch(self.producers, records, header)
                else:
                    duplicate = self.producers.check(header, produce_version)
            except KafkaError as error:
                raise self._append_error(error) from None
        if duplicate is not None:
            return Appended(
                duplicate.base_offset,
                duplicate.last_offset,
                duplicate.timestamp,
                self.log_start_offset,
                duplicate=True,
                flush_due=False,
            )
        base_offset = self.log_end_offset
        size = len(records)
        _pack_position_in_log(records, 0, base_offset, size - LOG_OVERHEAD, leader_epoch)
        flush_due = self._write(records, size, header, base_offset, leader_epoch, now_ms)
        return _new_tuple(
            Appended,
            (
                base_offset,
                base_offset + header[LAST_OFFSET_DELTA],
                now_ms if self._config.log_append_time else -1,
                self.log_start_offset,
                False,
                flush_due,
            ),
        )

    def _write(
        self,
        records: memoryview,
        size: int,
        header: BatchHeader,
        base_offset: int,
        leader_epoch: int,
        now_ms: int,
    ) -> bool:
        """Writes the batch, then updates the state; whether a flush is due."""
        config = self._config
        segment = self._segments.active
        last_offset = base_offset + header[LAST_OFFSET_DELTA]
        max_timestamp = header[MAX_TIMESTAMP]
        if (
            segment.size + size > config.segment_bytes
            or max_timestamp > segment.roll_timestamp
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        ) and segment.should_roll(config, size, last_offset, max_timestamp, now_ms):
            self.roll(now_ms, base_offset)
            segment = self._segments.active
        try:
            segment.append(records, size, last_offset, max_timestamp)
        except OSError as error:
            raise self._write_failed(error) from error
        self.log_end_offset = log_end_offset = last_offset + 1
        if self.on_change is not None:
            self.on_change()
        if header[PRODUCER_ID] >= 0:
            if not header[ATTRIBUTES] & CONTROL_MASK:
                self.producers.apply(header, base_offset, now_ms)
            else:
                apply_marker(self.producers, segment, records, header, base_offset, now_ms)
                self.flush_state.paths.append(segment.path(TXN_INDEX_SUFFIX))
                self.flush_state.directories.append(self.directory)
        if leader_epoch != self.leader_epochs.latest:
            self.leader_epochs.assign(leader_epoch, base_offset)
        flush_state = self.flush_state
        if flush_state.unflushed_since_ms < 0:
            flush_state.unflushed_since_ms = now_ms
            self._changed = True
        return flush_state.requested or log_end_offset - flush_state.recovery_point >= config.flush_messages

    def assign_leader_epoch(self, leader_epoch: int) -> None:
        """A new leader epoch begins at the log end offset, even if nothing is ever written in it."""
        self.leader_epochs.assign(leader_epoch, self.log_end_offset)
        self._tell()

    def _tell(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def append_batches(self, records: memoryview, now_ms: int) -> int:
        """Appends batches that have their offsets and epochs already, as a follower does.

        All of them are checked before the first is written. Returns the new log end offset.
        """
        if self.offline is not None:
            raise offline_error(self.topic_partition, self.offline)
        try:
            found = check_batches_with_offsets(records, self.log_end_offset)
        except KafkaError as error:
            raise self._append_error(error) from None
        for position, header in found:
            batch = records[position : position + header.size]
            self._write(batch, header.size, header, header.base_offset, header.partition_leader_epoch, now_ms)
        return self.log_end_offset

    # -- errors

    def _append_error(self, error: KafkaError) -> AppendError:
        if not isinstance(error, AppendError):
            error = AppendError(error.code, error.message, has_log_start_offset=True)
        if error.has_log_start_offset:
            error.log_start_offset = self.log_start_offset
        return error

    def _write_failed(self, error: OSError) -> AppendError:
        self.handle_disk_error("append", error)
        return offline_error(self.topic_partition, f"{self.directory}: {error.strerror}")

    def handle_disk_error(self, attempt: str, error: OSError) -> None:
        """Logs the error. A full disk may have space again later; after any other error it is offline."""
        if self._is_beside_the_point(attempt, error):
            return
        passing = error.errno in MAY_PASS
        step = f". Next: {next_step(error)}; the log goes on by itself" if passing else ""
        logger.error("%s: cannot %s: %s%s", self.topic_partition, attempt, error, step)
        if not passing:
            self._on_failure(self.directory, error)

    def _is_beside_the_point(self, attempt: str, error: OSError) -> bool:
        """Whether the log was taken out of use while a thread worked on its files.

        A partition that is deleted loses its directory under such a thread. That says nothing about the
        disk, and must not take every other partition of the data directory offline.
        """
        if self.offline is None:
            return False
        logger.debug("%s: cannot %s: %s, but %s", self.topic_partition, attempt, error, self.offline)
        return True

    def mark_offline(self, reason: str) -> None:
        """Takes the log offline until the broker is restarted."""
        if self.offline is None:
            self.offline = reason
            self.flush_state.abandon()
            self._tell()

    # -- rolling

    def roll(self, now_ms: int, base_offset: int | None = None) -> bool:
        """Seals the active segment and begins a new one; False when the active one is empty."""
        base_offset = self.log_end_offset if base_offset is None else base_offset
        sealed = self._segments.active
        if sealed.size == 0 and sealed.base_offset == base_offset:
            return False
        try:
            segment = Segment.create(self._files, self.directory, base_offset, now_ms)
        except OSError as error:
            raise self._write_failed(error) from error
        if sealed.size == 0:
            self._segments.replace_active(segment)
        else:
            self._segments.add(segment)
            self._seal(sealed, base_offset)
        self._configure(segment)
        logger.debug("%s: rolled a new segment at offset %d", self.topic_partition, base_offset)
        return True

    def _seal(self, segment: Segment, next_offset: int) -> None:
        # To be flushed: the indexes of the sealed segment, and the directory entry of the new one.
        self.flush_state.paths += (segment.path(suffix) for suffix in INDEX_SUFFIXES)
        self.flush_state.directories.append(self.directory)
        self.flush_state.requested = True
        try:
            segment.seal()
            self._segments.keep_loaded(segment)
            self.flush_state.paths.append(self._write_snapshot(next_offset))
        except OSError as error:
            # The next start rebuilds both from the log, as the recovery point is still below them.
            logger.warning("%s: index or snapshot not written at roll: %s", self.topic_partition, error)

    def _write_snapshot(self, offset: int) -> str:
        path = snapshot_path(self.directory, offset)
        self._files.write_atomically(path, self.producers.snapshot(), sync=False)
        return path

    # -- reading

    def read(self, offset: int, max_bytes: int, bound_offset: int, *, at_least_one: bool) -> Slice | None:
        """The bytes from the batch of ``offset`` on, up to ``bound_offset``; None if there are none.

        The last batch may be incomplete, as clients expect. The first one is complete: if it is larger than
        ``max_bytes``, it is returned only with ``at_least_one``.
        """
        log_end_offset = self.log_end_offset
        if offset < self.log_start_offset or offset > log_end_offset:
            raise self._out_of_range(offset)
        if offset >= bound_offset or offset == log_end_offset:
            return None
        try:
            return self._segments.read(offset, max_bytes, bound_offset, log_end_offset, at_least_one)
        except (CorruptLogError, OSError) as error:
            raise self.handle_read_error(error) from error

    def handle_read_error(self, error: CorruptLogError | OSError) -> KafkaError:
        """Logs that something cannot be read, and returns the error for the client."""
        passing = isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS
        steps = next_step(error) if passing else repair_steps(self.directory)
        logger.error("%s cannot be read: %s. Next: %s", self.topic_partition, error, steps)
        if isinstance(error, CorruptLogError):
            return KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error))
        if isinstance(error, FileNotFoundError):
            self.mark_offline(str(error))
        elif not passing:
            self._on_failure(self.directory, error)
        return offline_error(self.topic_partition, str(error))

    def _out_of_range(self, offset: int) -> KafkaError:
        return out_of_range(offset, self.topic_partition, self.log_start_offset, self.log_end_offset)

    # -- looking up

    def offset_for_timestamp(
        self, timestamp: int, from_offset: int = 0, *, at_once: bool = False
    ) -> TimestampOffset | None:
        """The first record, from an offset on, whose timestamp is at least this one.

        With ``at_once`` a HeavyLookup may come instead, here and from ``max_timestamp``.
        """
        start = max(self.log_start_offset, from_offset)
        return self._look_up(offset_for_timestamp, start, timestamp, at_once)

    def max_timestamp(self, *, at_once: bool = False) -> TimestampOffset | None:
        """The record with the largest timestamp."""
        return self._look_up(max_timestamp, self.log_start_offset, at_once)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in [start, end)."""
        return self._look_up(collect_aborted, self._files, start_offset, end_offset)

    def _look_up(self, find: Callable[..., _T], *arguments: object) -> _T:
        try:
            return find(self._segments, *arguments)
        except (CorruptLogError, OSError) as error:
            raise self.handle_read_error(error) from error

    # -- flushing

    @property
    def flush_deadline_ms(self) -> int | None:
        """When flush.ms requires a flush; None while there is nothing to flush."""
        since_ms = self.flush_state.unflushed_since_ms
        return None if since_ms < 0 else since_ms + self._config.flush_ms

    def begin_flush(self) -> FlushJob | None:
        """A job that flushes everything; None when there is nothing to flush or a job is already running."""
        flush_state = self.flush_state
        if flush_state.job is not None or self.offline is not None:
            return None
        behind = flush_state.recovery_point < self.log_end_offset
        if not (behind or flush_state.requested or self.leader_epochs.dirty):
            return None
        if not self._segments.active.write_txn_index():
            return None
        logs = [segment.file for segment in self._segments.from_offset(flush_state.recovery_point)]
        epochs = self.leader_epochs
        contents = {epochs.path: epochs.content()} if epochs.dirty else {}
        epochs.dirty = False
        return flush_state.begin(self._files, self.log_end_offset, logs, contents)

    def finish_flush(self, job: FlushJob) -> None:
        """Advances the recovery point, or takes the data directory offline if the job failed."""
        self.flush_state.finish(job, self.log_end_offset)
        self.leader_epochs.dirty |= job.disk_full or job.must_be_repeated
        if job.error is not None and not self._is_beside_the_point("flush", job.error):
            logger.error("%s: cannot flush: %s", self.topic_partition, job.error)
            if not job.must_be_repeated:
                self._on_failure(self.directory, job.error)

    def flush(self) -> None:
        """Flushes everything in this thread; KafkaError when the disk fails."""
        self._take_back_flush()
        job = self.begin_flush()
        if job is not None:
            job.run()
            self.finish_flush(job)
            if job.error is not None:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(job.error)) from job.error

    def _take_back_flush(self) -> None:
        """A job that was begun may never run; the list of epochs that it was to write is due again too."""
        self.leader_epochs.dirty |= self.flush_state.take_back()

    # -- deleting and truncating

    def delete_records_before(self, offset: int) -> int:
        """Advances the log start offset; ``delete_old_segments`` deletes the segments below it."""
        if not 0 <= offset <= self.log_end_offset:
            raise self._out_of_range(offset)
        self.advance_log_start_offset(offset, "records were deleted")
        return self.log_start_offset

    def advance_log_start_offset(self, offset: int, reason: str) -> None:
        """Consumers read from ``offset`` on; segments below it are not deleted yet."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)
            self._tell()
            logger.info("%s: log start offset is now %d: %s", self.topic_partition, offset, reason)

    def delete_old_segments(self, now_ms: int) -> int:
        """Deletes the segments below the log start offset, in this thread; returns how many."""
        return delete_old_segments(self, now_ms)

    def remove_deleted(self, now_ms: int) -> None:
        """Removes the files of deleted segments whose file.delete.delay.ms is over."""
        self._segments.remove(self._segments.take_due(now_ms))

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Removes everything from ``offset`` on, as a follower does where its leader's log differs.

        Also an epoch that begins at the end of the log: this node led in it and wrote nothing.
        """
        self._tell()
        if offset >= self.log_end_offset:
            self.leader_epochs.truncate_from_end(offset)
            return
        if self.flush_state.cut(offset):
            self.before_truncation()
        self._segments.truncate(offset, now_ms)
        self._configure(self._segments.active)
        self._changed = True
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.leader_epochs.truncate_from_end(offset)
        snapshots = self._segments.remove_snapshots(above=offset)
        load_producer_states(self._files, self._segments.to_list(), snapshots, self.producers, offset, now_ms)
        logger.info("%s: cut to offset %d", self.topic_partition, offset)
        self.after_truncation(offset)

    def restart_at(self, offset: int, now_ms: int) -> None:
        """Drops everything and goes on at ``offset``: the leader no longer has what would be next here."""
        self.truncate_to(self.first_segment_offset, now_ms)
        if self._segments.active.base_offset != offset:
            self._segments.replace_active(Segment.create(self._files, self.directory, offset, now_ms))
            self._configure(self._segments.active)
        self.producers.clear()  # a transaction that is open here may have ended in what is missing
        self._segments.remove_snapshots(above=-1)
        self.log_start_offset = self.log_end_offset = self.flush_state.recovery_point = offset
        self.leader_epochs.clear()
        self._changed = True
        logger.warning("%s: begins again at offset %d", self.topic_partition, offset)

    def moved_to(self, directory: str) -> None:
        """The directory has another name and is out of use; what is being read from it is read on."""
        self.mark_offline("it was moved")
        for segment in self._segments:
            segment.moved_to(directory)

    def begin_close(self) -> FlushJob | None:
        """Writes indexes and producer state, so that the next start need not read the log; returns a flush.

        The flush does not cover indexes and snapshot: what a power cut takes of them is noticed and rebuilt.
        """
        self._take_back_flush()
        active = self._segments.active
        if self._changed:
            active.seal()
            if active.size:  # else the snapshot that was written when the segment began is still true
                self._write_snapshot(self.log_end_offset)
        return self.begin_flush()

    def finish_close(self, job: FlushJob | None) -> None:
        if job is not None:
            self.finish_flush(job)
        for segment in self._segments:
            segment.close()
