"""A partition that is filled with batches from a snapshot, at the offsets that they have.

Batches come in the order of their offsets and are checked like those of a leader. The log ends where the
snapshot says, even if compaction has removed the last records before it.

Invariant: nobody sees the partition before it is complete. Used by one thread at a time.
"""

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import batches
from moldau.storage.branches.branch import Branch, BranchError
from moldau.storage.file_names import snapshot_path
from moldau.storage.log.config import LogConfig
from moldau.storage.log.leader_epoch_cache import LeaderEpochCache
from moldau.storage.log.log import Log
from moldau.storage.log.producer_state import ProducerStates
from moldau.storage.log.segment import Segment
from moldau.storage.log.segments import Segments


class PartitionRestore:
    __slots__ = ("_log", "branch", "config", "error")

    def __init__(self, branch: Branch, config: LogConfig, log_start_offset: int, end_offset: int) -> None:
        if not 0 <= log_start_offset <= end_offset:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{branch.topic_partition} cannot begin at {log_start_offset} and end at {end_offset}",
            )
        branch.log_start_offset = log_start_offset
        branch.end_offset = end_offset
        self.branch = branch
        self.error: Exception | None = None
        self.config = config
        self._log: Log | None = None

    @property
    def latest_leader_epoch(self) -> int:
        """That of the last batch; -1 without batches."""
        return -1 if self._log is None else self._log.leader_epochs.latest

    def append(self, records: memoryview, now_ms: int) -> int:
        """Appends complete batches; returns the next offset."""
        try:
            last = None
            for position, header in batches(records):
                if self._log is None:
                    first = min(header.base_offset, self.branch.log_start_offset)
                    self._log = self._create(max(first, 0), now_ms)
                last = position, header
            if last is None or last[0] + last[1].size != len(records):
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the records are not whole batches")
            if last[1].last_offset >= self.branch.end_offset:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD,
                    f"{self.branch.topic_partition} ends at offset {self.branch.end_offset}, "
                    f"and a batch goes on to {last[1].last_offset}",
                )
            assert self._log is not None
            return self._log.append_batches(records, now_ms)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _create(self, base_offset: int, now_ms: int) -> Log:
        branch = self.branch
        branch.make_directory()
        segment = Segment.create(branch.files, branch.path, base_offset, now_ms)
        return Log(
            branch.files,
            branch.topic_partition,
            branch.topic_id,
            branch.path,
            self.config,
            Segments(branch.files, branch.path, [segment]),
            log_start_offset=base_offset,
            log_end_offset=base_offset,
            recovery_point=base_offset,
            producers=ProducerStates(branch.topic_partition),
            leader_epochs=LeaderEpochCache(branch.files, branch.path),
        )

    def run(self) -> None:
        """Closes and flushes what was appended; ``error`` is set if that fails."""
        try:
            self._finish()
        except BranchError as error:
            self.error = error

    def _finish(self) -> None:
        log, branch = self._log, self.branch
        if log is None:
            branch.make_directory()
            branch.seal(ProducerStates(branch.topic_partition))
        else:
            job = log.begin_close()
            if job is not None:
                job.run()
                if job.error is not None:
                    raise job.error
            log.finish_close(job)
            if log.log_end_offset != branch.end_offset:
                # It would tell of a segment that begins where the last batch ends.
                branch.files.remove(snapshot_path(branch.path, log.log_end_offset))
            branch.seal(log.producers)
        branch.flush()
