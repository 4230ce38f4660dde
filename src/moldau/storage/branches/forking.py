"""A fork: a partition directory that shares the sealed segments of another partition by hard links.

``begin_fork`` decides everything in the thread that owns the source: where the fork ends, which files it
takes. ``run`` links and copies in any thread, while the source may be appended to and lose its oldest
segments. ``is_consistent`` tells afterwards whether what was taken belongs together. The segment of the end
is copied, the others are linked.

Invariant: the source is only read. A linked file is never changed in place (see ``File.unshare``).
"""

import contextlib
from typing import NamedTuple

from moldau.protocol.records import HEADER_SIZE, read_header, truncate_batch
from moldau.storage.branches.branch import Branch, BranchError
from moldau.storage.directory.checkpoints import LEADER_EPOCH_FILE, format_leader_epochs
from moldau.storage.file_names import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
    snapshot_offsets,
    snapshot_path,
)
from moldau.storage.files import File
from moldau.storage.log.log import Log
from moldau.storage.log.producer_state import ProducerStates
from moldau.storage.log.replay import load_producer_states
from moldau.storage.log.segment import Segment
from moldau.storage.log.txn_index import AbortedTransaction, TxnIndex

#: A batch in the log was accepted, so that its uncompressed size is bounded; this only stops corrupt data.
_DECODED_LIMIT = 1 << 30


class SourceChanged(Exception):
    """Compaction has replaced segments while they were being linked; the fork must begin again."""


class Linked(NamedTuple):
    """A sealed segment below the end of the fork, which is linked."""

    segment: Segment
    size: int
    next_offset: int


class Tail(NamedTuple):
    """The segment in which the fork ends; its first bytes are copied."""

    segment: Segment
    file: File
    size: int
    #: The position of the last batch if only its first records belong to the fork.
    cut_position: int | None
    aborted: list[AbortedTransaction]


class ForkJob:
    """One partition of a fork. After ``run`` the branch is complete, or ``error`` is set."""

    __slots__ = (
        "_epochs",
        "_linked",
        "_now_ms",
        "_oldest",
        "_recovery_point",
        "_source",
        "_tail",
        "branch",
        "error",
    )

    def __init__(
        self, source: Log, branch: Branch, linked: list[Linked], tail: Tail | None, now_ms: int
    ) -> None:
        self.branch = branch
        self.error: Exception | None = None
        self._source = source
        self._linked = linked
        self._tail = tail
        self._now_ms = now_ms
        #: Segments below it were deleted from the source before they could be linked.
        self._oldest = 0
        self._recovery_point = source.recovery_point
        entries = source.leader_epochs.entries()
        self._epochs = [entry for entry in entries if entry[1] < branch.end_offset]

    # -- in any thread

    def run(self) -> None:
        try:
            self._build()
        except (*BranchError, SourceChanged) as error:
            self.error = error

    def _build(self) -> None:
        branch = self.branch
        branch.make_directory()
        epochs = format_leader_epochs(self._epochs)
        branch.files.write_atomically(f"{branch.path}/{LEADER_EPOCH_FILE}", epochs, sync=False)
        # The newest first: if the oldest segments of the source are deleted meanwhile, the fork does without
        # them.
        segments: list[Segment] = []
        if self._tail is not None and (copied := self._copy_tail(self._tail)) is not None:
            segments.append(copied)
        for linked in reversed(self._linked):
            try:
                segments.append(self._link(linked))
            except FileNotFoundError:
                self._oldest = linked.next_offset
                branch.log_start_offset = max(branch.log_start_offset, linked.next_offset)
                break
        segments.reverse()
        branch.seal(self._producers_at_end(segments))
        branch.flush(self._flushed())

    def _link(self, linked: Linked) -> Segment:
        """Links the files of a segment."""
        files, directory = self.branch.files, self.branch.path
        source = linked.segment
        name = file_name(source.base_offset, LOG_SUFFIX)
        files.link(source.path(LOG_SUFFIX), f"{directory}/{name}")
        if files.size_of(f"{directory}/{name}") != linked.size:
            raise SourceChanged(source.path(LOG_SUFFIX))
        for suffix in INDEX_SUFFIXES:
            # A missing index is rebuilt when it is needed; a transaction index may not exist.
            with contextlib.suppress(FileNotFoundError):
                files.link(source.path(suffix), f"{directory}/{file_name(source.base_offset, suffix)}")
        return Segment(files, directory, source.base_offset, linked.size, self._now_ms)

    def _copy_tail(self, tail: Tail) -> Segment | None:
        """Copies the segment of the end; None when none of its records is before the end."""
        files, directory = self.branch.files, self.branch.path
        base_offset = tail.segment.base_offset
        path = f"{directory}/{file_name(base_offset, LOG_SUFFIX)}"
        files.copy(tail.file, tail.size, path)
        copied = files.open(path)
        if tail.cut_position is not None:
            self._cut(copied, tail.cut_position)
        if copied.size == 0:
            files.remove(path)
            return None
        segment = Segment(files, directory, base_offset, copied.size, self._now_ms)
        segment.index_interval_bytes = self._source.config.index_interval_bytes
        segment.max_index_bytes = self._source.config.segment_index_bytes
        segment.reset_indexes()
        for position, header in segment.headers(0):
            segment.index_batch(position, header.last_offset, header.max_timestamp)
        segment.seal()
        index = TxnIndex(files, segment.path(TXN_INDEX_SUFFIX))
        index.entries = list(tail.aborted)
        index.rewrite()
        return segment

    def _cut(self, copied: File, position: int) -> None:
        """Removes the records from the end offset on from the last batch."""
        batch = copied.read(position, copied.size - position)
        kept = truncate_batch(batch, 0, read_header(batch), self.branch.end_offset, limit=_DECODED_LIMIT)
        copied.truncate(position)
        if kept is not None:
            copied.append(kept)

    def _producers_at_end(self, segments: list[Segment]) -> ProducerStates:
        """The state of producers at the end of the fork, for its open transactions."""
        branch = self.branch
        producers = ProducerStates(branch.topic_partition)
        if not segments:
            return producers
        known: int | None = None
        with contextlib.suppress(FileNotFoundError):
            names = branch.files.list_sizes(self._source.directory)
            known = max((at for at in snapshot_offsets(names) if at <= branch.end_offset), default=None)
            if known is not None:
                branch.files.link(
                    snapshot_path(self._source.directory, known), snapshot_path(branch.path, known)
                )
        snapshots = [] if known is None else [known]
        load_producer_states(branch.files, segments, snapshots, producers, branch.end_offset, self._now_ms)
        if known is not None:
            with contextlib.suppress(FileNotFoundError):
                branch.files.remove(snapshot_path(branch.path, known))
        return producers

    def _flushed(self) -> set[str]:
        """Segments that the source has flushed, so that the fork need not."""
        return {
            file_name(linked.segment.base_offset, LOG_SUFFIX)
            for linked in self._linked
            if linked.next_offset <= self._recovery_point
        }

    # -- in the thread that owns the source again

    def is_consistent(self) -> bool:
        """Whether the source still has the segments that were taken, except for deleted oldest ones."""
        if isinstance(self.error, SourceChanged):
            return False
        source = self._source
        current = {segment.base_offset: segment for segment in source.segments}
        first = source.first_segment_offset
        for segment, size, _ in self._linked:
            found = current.get(segment.base_offset)
            if found is None:
                if segment.base_offset >= first:
                    return False
            elif found is not segment or found.size != size or segment.base_offset < self._oldest:
                return False
        return self._tail is None or self._tail_is_consistent(current, first)

    def _tail_is_consistent(self, current: dict[int, Segment], first: int) -> bool:
        assert self._tail is not None
        segment = self._tail.segment
        found = current.get(segment.base_offset)
        if found is None:
            return segment.base_offset < first
        return found is segment and found.size >= self._tail.size


def begin_fork(source: Log, branch: Branch, end_offset: int, now_ms: int) -> ForkJob:
    """A job that forks the source up to ``end_offset``, which is between its start and end offsets."""
    assert source.log_start_offset <= end_offset <= source.log_end_offset
    branch.log_start_offset = source.log_start_offset
    branch.end_offset = end_offset
    taken = [s for s in source.segments.from_offset(source.log_start_offset) if s.base_offset < end_offset]
    ends = [s.base_offset for s in taken[1:]] + [end_offset]
    tail: Tail | None = None
    if taken and end_offset > source.log_start_offset:
        tail = _tail(source, taken[-1], end_offset)
    elif end_offset == source.log_start_offset:
        taken = []
    whole = taken if tail is None else taken[:-1]
    linked = [Linked(segment, segment.size, end) for segment, end in zip(whole, ends, strict=False)]
    return ForkJob(source, branch, linked, tail, now_ms)


def _tail(source: Log, segment: Segment, end_offset: int) -> Tail | None:
    """The part of the last segment that belongs to the fork; None when it is sealed and all of it does."""
    source.segments.warm_up(segment)
    place = segment.locate(end_offset)
    if place is None and segment is not source.segments.active:
        return None
    size, cut_position = segment.size, None
    if place is not None:
        size = place[0]
        header = read_header(segment.file.read(size, HEADER_SIZE))
        if header.base_offset < end_offset:
            size, cut_position = place[1], place[0]
    aborted = [entry for entry in segment.txn_index.entries if entry.last_offset < end_offset]
    return Tail(segment, segment.file, size, cut_position, aborted)
