"""Opening and creating the log of a partition, after a clean shutdown and after a crash.

After a clean shutdown no log data is read, except for the last index interval. After a crash everything
above the recovery point is checked. A corrupt batch there had not been flushed: the log is truncated before
it, with a warning.

Invariant: a corrupt batch below the recovery point means a rotten disk. The log is then not opened and
nothing is deleted. Data is moved aside rather than removed.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple

from moldau.base.names import TopicPartition, Uuid
from moldau.protocol.errors import KafkaError
from moldau.protocol.records import BASE_OFFSET, LAST_OFFSET_DELTA, LEADER_EPOCH, MAX_TIMESTAMP, PRODUCER_ID
from moldau.storage.compaction.swap import complete_swaps
from moldau.storage.directory.checkpoints import PARTITION_METADATA_FILE
from moldau.storage.errors import CorruptFileError, CorruptLogError, StorageError
from moldau.storage.file_names import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    STRAY_FILE_SUFFIX,
    file_name,
    offset_of,
    snapshot_offsets,
    snapshot_path,
)
from moldau.storage.files import Files
from moldau.storage.log.config import LogConfig
from moldau.storage.log.leader_epoch_cache import LeaderEpochCache
from moldau.storage.log.log import Log
from moldau.storage.log.lost_segments import check_orphans, check_snapshots
from moldau.storage.log.producer_state import ProducerStates
from moldau.storage.log.replay import apply_marker, load_producer_states
from moldau.storage.log.scan import Damage, scan
from moldau.storage.log.segment import Segment
from moldau.storage.log.segments import Segments

logger = logging.getLogger("moldau.storage")


class LogToOpen(NamedTuple):
    """What is known of a log before it is opened."""

    topic_partition: TopicPartition
    topic_id: Uuid | None
    directory: str
    config: LogConfig
    clean: bool
    recovery_point: int
    log_start_offset: int
    now_ms: int
    #: Segments that are gone are done without, instead of not opening the log.
    accept_lost_files: bool = False


def open_log(files: Files, to_open: LogToOpen, on_failure: Callable[[str, OSError], None]) -> Log:
    """The log in ``to_open.directory``; CorruptLogError when flushed data cannot be read."""
    directory = to_open.directory
    names = complete_swaps(files, directory, files.list_sizes(directory))
    segments = _segments(files, to_open, names)
    snapshots = snapshot_offsets(names)
    epochs = LeaderEpochCache(files, directory)
    try:
        epochs.load()
    except CorruptFileError as error:
        logger.warning("rebuilding leader epochs: %s", error)
        _rebuild_epochs(segments, epochs)
    producers = ProducerStates(to_open.topic_partition)
    if not to_open.clean:
        _recover(files, to_open, segments, snapshots, epochs, producers)
    log_end_offset = _open_active(to_open, segments, snapshots)
    if to_open.clean:
        if not to_open.config.compact:
            check_snapshots(directory, names, segments, accept=to_open.accept_lost_files)
        load_producer_states(files, segments, snapshots, producers, log_end_offset, to_open.now_ms)
    if max(log_end_offset, to_open.log_start_offset) < to_open.recovery_point:
        last = segments[-1]
        reason = f"the log ends, though it was on the device up to offset {to_open.recovery_point}"
        raise CorruptLogError(last.path(LOG_SUFFIX), last.size, log_end_offset, reason)
    log_start_offset = max(to_open.log_start_offset, segments[0].base_offset)
    if log_start_offset > log_end_offset:
        _begin_at_log_start(to_open, segments)
        log_end_offset = log_start_offset
    epochs.truncate_from_end(log_end_offset + 1)
    epochs.truncate_from_start(log_start_offset)
    opened = Log(
        files,
        to_open.topic_partition,
        to_open.topic_id,
        directory,
        to_open.config,
        Segments(files, directory, segments),
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        recovery_point=log_end_offset if to_open.clean else min(to_open.recovery_point, log_end_offset),
        producers=producers,
        leader_epochs=epochs,
        changed=not to_open.clean or log_end_offset not in snapshots,
        on_failure=on_failure,
    )
    kept_snapshots = {segment.base_offset for segment in segments} | {log_end_offset}
    for offset in snapshots:
        if offset not in kept_snapshots:
            files.remove(snapshot_path(directory, offset))
    return opened


#: The data directory of a log, what is known of the log, and what to call when its disk fails.
Work = tuple[str, LogToOpen, Callable[[str, OSError], None]]


def open_in_parallel(files: Files, work: Sequence[Work], threads: int) -> Iterator[Log | Exception]:
    """Opens logs, ``threads`` per data directory; in order, each log or why it cannot be opened."""
    if threads == 1 or len(work) < 2:
        yield from (_try_to_open(files, to_open, on_failure) for _, to_open, on_failure in work)
        return
    with ExitStack() as stack:
        pools = {
            root: stack.enter_context(ThreadPoolExecutor(threads, "moldau-recovery"))
            for root in {root for root, _, _ in work}
        }
        pending = [
            pools[root].submit(_try_to_open, files, to_open, on_failure) for root, to_open, on_failure in work
        ]
        yield from (future.result() for future in pending)


def _try_to_open(
    files: Files, to_open: LogToOpen, on_failure: Callable[[str, OSError], None]
) -> Log | Exception:
    try:
        return open_log(files, to_open, on_failure)
    except (StorageError, OSError, KafkaError) as error:
        return error


def create_log(
    files: Files, to_open: LogToOpen, on_failure: Callable[[str, OSError], None], *, file_exists: bool = False
) -> Log:
    """An empty log in a new directory, which has the file of its first segment if ``file_exists``."""
    segment = Segment.create(files, to_open.directory, 0, to_open.now_ms, file_exists=file_exists)
    created = Log(
        files,
        to_open.topic_partition,
        to_open.topic_id,
        to_open.directory,
        to_open.config,
        Segments(files, to_open.directory, [segment]),
        log_start_offset=0,
        log_end_offset=0,
        recovery_point=0,
        producers=ProducerStates(to_open.topic_partition),
        leader_epochs=LeaderEpochCache(files, to_open.directory),
        on_failure=on_failure,
    )
    # The directory entries have to be flushed too: without them the flushed files would be lost.
    created.flush_state.paths.append(f"{to_open.directory}/{PARTITION_METADATA_FILE}")
    created.flush_state.directories += (to_open.directory, to_open.directory.rpartition("/")[0])
    return created


def _segments(files: Files, to_open: LogToOpen, sizes: dict[str, int]) -> list[Segment]:
    segments = []
    for name, size in sizes.items():
        offset = offset_of(name)
        if offset is not None and name == file_name(offset, LOG_SUFFIX):
            segments.append(Segment(files, to_open.directory, offset, size, to_open.now_ms))
    interrupted = to_open.config.compact and not to_open.clean
    accept = to_open.accept_lost_files
    for name in check_orphans(to_open.directory, sizes, interrupted=interrupted, accept=accept):
        logger.warning("%s/%s belongs to no segment and is removed", to_open.directory, name)
        files.remove(f"{to_open.directory}/{name}")
    if not segments:
        segments.append(
            Segment.create(files, to_open.directory, max(to_open.log_start_offset, 0), to_open.now_ms)
        )
    for segment in segments:
        segment.index_interval_bytes = to_open.config.index_interval_bytes
    return segments


def _recover(
    files: Files,
    to_open: LogToOpen,
    segments: list[Segment],
    snapshots: list[int],
    epochs: LeaderEpochCache,
    producers: ProducerStates,
) -> None:
    """Checks the segments that reach above the recovery point; rebuilds their indexes and producer state."""
    below = (at for at, segment in enumerate(segments) if segment.base_offset <= to_open.recovery_point)
    first = max(below, default=0)
    start = segments[first].base_offset
    epochs.truncate_from_end(start)
    usable = [offset for offset in snapshots if offset <= start]
    load_producer_states(files, segments, usable, producers, start, to_open.now_ms)
    count = len(segments) - first
    at = first - 1
    while (at := at + 1) < len(segments):
        segment = segments[at]
        segment.reset_txn_index()
        if count > 1:
            logger.info("%s: checking segment %d of %d", to_open.topic_partition, at - first + 1, count)
        is_last = at + 1 == len(segments)
        limit = None if is_last else segments[at + 1].base_offset
        damage = _check(segment, epochs, producers, to_open.now_ms, limit)
        if damage is None:
            if not is_last:
                segment.seal_and_unload()
                _close_gap(files, segments, at, expected=to_open.config.compact)
            continue
        if damage.offset < to_open.recovery_point:
            raise CorruptLogError(segment.path(LOG_SUFFIX), damage.position, damage.offset, damage.reason)
        _truncate(segment, damage)
        if not is_last:
            _move_aside(segments, at + 1)
        break
    logger.info("%s: checked from offset %d on", to_open.topic_partition, start)


def _close_gap(files: Files, segments: list[Segment], at: int, *, expected: bool) -> None:
    """A power cut removed the unflushed end of a sealed segment.

    If the segments after it are empty, they are removed and the log continues from there; otherwise they are
    served, after the gap.
    """
    segment, following = segments[at], segments[at + 1]
    next_offset = segment.next_offset()
    if next_offset == following.base_offset:
        return
    # Compaction removes records from the end of a segment too, but never from the end of the log.
    logger.log(
        logging.DEBUG if expected else logging.WARNING,
        "%s ends at offset %d, and the next segment begins at %d",
        segment.path(LOG_SUFFIX),
        next_offset,
        following.base_offset,
    )
    if not any(later.size for later in segments[at + 1 :]):
        for later in segments[at + 1 :]:
            for path in later.rename_to(DELETED_SUFFIX):
                files.remove(path)
        del segments[at + 1 :]


def _check(
    segment: Segment,
    epochs: LeaderEpochCache,
    producers: ProducerStates | None,
    now_ms: int,
    next_base_offset: int | None = None,
) -> Damage | None:
    """Checks a whole segment and rebuilds its indexes; returns the first damage."""
    segment.reset_indexes()
    for found in scan(segment.file, segment.base_offset, next_base_offset):
        if isinstance(found, Damage):
            return found
        position, header = found
        base_offset, epoch = header[BASE_OFFSET], header[LEADER_EPOCH]
        segment.index_batch(position, base_offset + header[LAST_OFFSET_DELTA], header[MAX_TIMESTAMP])
        if epoch != epochs.latest:
            epochs.assign(epoch, base_offset)
        if header[PRODUCER_ID] < 0 or producers is None:
            continue
        if header.is_control:
            batch = segment.file.read(position, header.size)
            apply_marker(producers, segment, batch, header, base_offset, now_ms)
        else:
            producers.apply(header, base_offset, now_ms)
    return None


def _truncate(segment: Segment, damage: Damage) -> None:
    logger.warning(
        "%s: cut at position %d, offset %d, %d bytes dropped: %s; no batch that was flushed is among them",
        segment.path(LOG_SUFFIX),
        damage.position,
        damage.offset,
        segment.size - damage.position,
        damage.reason,
    )
    segment.truncate(damage.position, damage.offset)


def _move_aside(segments: list[Segment], at: int) -> None:
    """Takes the segments from ``at`` on out of the log: renames them for a person, and removes empty ones."""
    for segment in segments[at:]:
        if segment.size:
            moved = ", ".join(segment.rename_to(STRAY_FILE_SUFFIX))
            message = "moved aside: %s; 'moldau log verify %s --running' tells whether the rest is well"
            logger.warning(message, moved, segment.directory)
        else:
            for path in segment.rename_to(DELETED_SUFFIX):
                segment.files.remove(path)
    del segments[at:]


def _open_active(to_open: LogToOpen, segments: list[Segment], snapshots: list[int]) -> int:
    active = segments[-1]
    try:
        return active.open_tail()
    except (CorruptLogError, KafkaError) as error:
        # Closed cleanly, and yet the end of the last segment is inconsistent: check all of it.
        logger.warning("%s: checking the whole segment: %s", to_open.topic_partition, error)
        damage = _check(active, LeaderEpochCache(active.files, to_open.directory), None, 0)
        if damage is not None:
            # The stop has noted where the log ends, twice: what is behind that was not there then.
            if damage.offset < max(to_open.recovery_point, *snapshots, 0):
                raise CorruptLogError(
                    active.path(LOG_SUFFIX), damage.position, damage.offset, damage.reason
                ) from error
            _truncate(active, damage)
        return active.open_tail()


def _begin_at_log_start(to_open: LogToOpen, segments: list[Segment]) -> None:
    """All that a crash left had been deleted by a client: the log continues at the log start offset.

    Only a checkpoint says so, which may be wrong: the files are moved aside, not deleted.
    """
    logger.warning("%s: nothing is left above the log start, %d", to_open.directory, to_open.log_start_offset)
    files = segments[0].files
    _move_aside(segments, 0)
    segments.append(Segment.create(files, to_open.directory, to_open.log_start_offset, to_open.now_ms))


def _rebuild_epochs(segments: list[Segment], epochs: LeaderEpochCache) -> None:
    epochs.clear()
    for segment in segments:
        for _, header in segment.headers(0):
            epochs.assign(header.partition_leader_epoch, header.base_offset)
