"""Segments in the middle of a log that are gone, and files that have got the name of another segment.

That a segment was there is told by what was made together with it: its indexes, and the snapshot of producers
at its base offset. Nothing of this reads a log, except where a snapshot is suspicious.

Invariant: what tells of a lost segment is kept until the loss is accepted.
"""

import logging
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from moldau.storage.errors import ACCEPT_LOST_FILES, CorruptLogError, LostFileError, repair_steps
from moldau.storage.file_names import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    file_name,
    offset_of,
    snapshot_offsets,
)
from moldau.storage.files import Files
from moldau.storage.log.indexes import OFFSET_ENTRY_SIZE, OffsetIndex
from moldau.storage.log.segment import Segment

if TYPE_CHECKING:
    from moldau.storage.log.log import Log

logger = logging.getLogger("moldau.storage")


def orphaned_indexes(names: Iterable[str]) -> list[str]:
    """Index files without their log file."""
    known = set(names)
    return [
        name
        for name in known
        if name.endswith(INDEX_SUFFIXES)
        and (offset := offset_of(name)) is not None
        and file_name(offset, LOG_SUFFIX) not in known
    ]


def check_orphans(directory: str, names: Iterable[str], *, interrupted: bool, accept: bool) -> list[str]:
    """The indexes that belong to no segment and may be removed; LostFileError where one tells of a loss.

    ``interrupted``: a compaction may have been stopped half-way. A deletion of the oldest or a truncation of
    the newest segments leaves indexes too, outside of the offsets that the log still has.
    """
    known = list(names)
    logs = (offset_of(name) for name in known if name.endswith(LOG_SUFFIX))
    bases = [offset for offset in logs if offset is not None]
    orphans = sorted(orphaned_indexes(known))
    for name in orphans:
        offset = offset_of(name)
        assert offset is not None
        if bases and min(bases) < offset < max(bases) and not interrupted:
            _lost(directory, offset, name, accept=accept)
    return orphans


def check_snapshots(
    directory: str, names: Collection[str], segments: Sequence[Segment], *, accept: bool
) -> None:
    """LostFileError where a snapshot stands at an offset that no segment reaches, after a clean stop.

    A snapshot inside of a segment is what the last stop has left; one of a segment that a repair has moved
    aside tells nothing new.
    """
    bases = {segment.base_offset for segment in segments}
    bases |= {offset for name in names if LOG_SUFFIX in name and (offset := offset_of(name)) is not None}
    for offset in snapshot_offsets(names):
        if offset in bases or not segments[0].base_offset < offset < segments[-1].base_offset:
            continue
        before = [segment for segment in segments if segment.base_offset < offset][-1]
        end = before.next_offset()
        before.unload()
        if end <= offset:
            _lost(directory, end, file_name(offset, SNAPSHOT_SUFFIX), accept=accept)


def _lost(directory: str, offset: int, witness: str, *, accept: bool) -> None:
    gone = f"{directory}: a segment with offset {offset} is gone, though {witness} tells of it"
    if accept:
        logger.warning("%s; the log is served without it, as %s says", gone, ACCEPT_LOST_FILES)
        return
    raise LostFileError(
        f"{gone}: put it back and restart the broker, or start once with {ACCEPT_LOST_FILES}=true to serve "
        "the rest; nothing was changed"
    )


class SealedCheck:
    """Looks whether the sealed segments of a log are the ones that their names say, and follow each other.

    Made by the thread that owns the log; ``run`` may be called in any thread and reads a few headers of each
    segment. Segments that are deleted meanwhile are passed over.
    """

    __slots__ = ("_compact", "_directory", "_files", "_ranges", "damage", "holes")

    def __init__(self, files: Files, log: "Log") -> None:
        segments = log.segments.to_list()
        #: Why the log must not be used; None where nothing is wrong.
        self.damage: CorruptLogError | None = None
        #: Offsets that are in no segment, first and last.
        self.holes: list[tuple[int, int]] = []
        self._files = files
        self._directory = log.directory
        self._compact = log.config.compact
        self._ranges = [
            (segment.base_offset, segment.size, following.base_offset)
            for segment, following in pairwise(segments)
            if segment.size
        ]

    def run(self) -> None:
        for base_offset, size, next_base_offset in self._ranges:
            segment = Segment(self._files, self._directory, base_offset, size, 0)
            try:
                segment.check_place(next_base_offset)
                end = self._end(segment)
            except FileNotFoundError:
                continue
            except CorruptLogError as error:
                self.damage = error
                return
            if end is None:
                continue
            if end > next_base_offset:
                reason = f"it reaches offset {end - 1}, and the next segment begins at {next_base_offset}"
                self.damage = CorruptLogError(segment.path(LOG_SUFFIX), size, end - 1, reason)
                return
            if end < next_base_offset and not self._compact:
                self.holes.append((end, next_base_offset - 1))

    def report(self, log: "Log") -> None:
        """Logs what was found; a log whose files were exchanged takes no more writes."""
        steps = repair_steps(log.directory)
        for first, last in self.holes:
            message = "%s: offsets %d to %d are in no segment: was a file removed? Next: %s"
            logger.error(message, log.topic_partition, first, last, steps)
        if self.damage is not None:
            logger.error("%s is offline: %s; %s", log.topic_partition, self.damage, steps)
            log.mark_offline(f"{self.damage}; {steps}")

    def _end(self, segment: Segment) -> int | None:
        """The offset after the last batch; None where the index does not help, which is not rebuilt here."""
        index = self._files.open(segment.path(OFFSET_INDEX_SUFFIX))
        if index.size % OFFSET_ENTRY_SIZE:
            return None
        position = 0
        if index.size:
            last = index.read(index.size - OFFSET_ENTRY_SIZE, OFFSET_ENTRY_SIZE)
            position = OffsetIndex.position_in(last)
        end = None
        for _, header in segment.headers(position):
            end = header.last_offset + 1
        return end
