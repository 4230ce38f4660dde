"""Rebuilding producer state and transaction indexes from the batches of a log.

Invariant: batches are applied as by live appends, so that the state after a replay equals the state after
the run that wrote the log, except for what snapshots leave out (all but the last batch of a producer).
"""

import logging
from collections.abc import Sequence

from moldau.base.names import TopicPartition
from moldau.protocol.control_records import decode_marker
from moldau.protocol.records import BatchHeader
from moldau.storage.errors import CorruptFileError
from moldau.storage.file_names import snapshot_offsets, snapshot_path
from moldau.storage.files import Files
from moldau.storage.log.producer_state import ProducerStates
from moldau.storage.log.segment import Segment
from moldau.storage.log.segments import Segments
from moldau.storage.log.txn_index import AbortedTransaction, TxnIndex

logger = logging.getLogger("moldau.storage")


def check_internal_batch(producers: ProducerStates, records: memoryview, header: BatchHeader) -> None:
    """Checks a batch that the broker itself writes; KafkaError for an old epoch of producer or coordinator.

    A group coordinator writes with the id of a producer but without sequences: none of its batches is a
    duplicate.
    """
    if not header.is_control:
        producers.check_epoch(header)
        return
    marker = decode_marker(records, 0, header)
    if marker is not None:
        producers.check_marker(header.producer_id, header.producer_epoch, marker.coordinator_epoch)


def apply_marker(
    producers: ProducerStates,
    segment: Segment,
    records: bytes | memoryview,
    header: BatchHeader,
    base_offset: int,
    now_ms: int,
) -> None:
    """A control batch has been written: if it aborts a transaction, the segment's index gets an entry."""
    marker = decode_marker(records, 0, header)
    if marker is None:
        return
    completed = producers.apply_marker(
        header,
        base_offset,
        committed=marker.committed,
        coordinator_epoch=marker.coordinator_epoch,
        now_ms=now_ms,
    )
    if completed is not None and not completed.committed:
        index = segment.txn_index
        if not index.entries or index.entries[-1].last_offset < base_offset:
            index.append(producers.aborted(completed))


def replay(producers: ProducerStates, segments: Sequence[Segment], start: int, end: int, now_ms: int) -> None:
    """Applies every batch in [start, end)."""
    for segment in segments:
        if segment.base_offset >= end:
            return  # recovery may not have checked it yet
        place = segment.locate(start) if segment.size else None
        if place is None:
            continue
        for position, header in segment.headers(place[0]):
            if header.base_offset >= end:
                return
            if header.producer_id < 0:
                continue
            if header.is_control:
                batch = segment.file.read(position, header.size)
                apply_marker(producers, segment, batch, header, header.base_offset, now_ms)
            else:
                producers.apply(header, header.base_offset, now_ms)


def load_producer_states(
    files: Files,
    segments: Sequence[Segment],
    snapshots: Sequence[int],
    producers: ProducerStates,
    log_end_offset: int,
    now_ms: int,
) -> None:
    """Loads the newest snapshot that is not above the log end offset and replays the batches after it."""
    producers.clear()
    start = segments[0].base_offset
    for offset in sorted(snapshots, reverse=True):
        path = snapshot_path(segments[0].directory, offset)
        if offset > log_end_offset:
            continue
        try:
            producers.load(files.read_whole(path), path, now_ms)
        except (CorruptFileError, FileNotFoundError) as error:
            logger.warning("ignoring a snapshot of producers: %s", error)
            continue
        start = max(start, offset)
        break
    if start < log_end_offset:
        first = max((at for at, segment in enumerate(segments) if segment.base_offset <= start), default=0)
        replay(producers, segments[first:], start, log_end_offset, now_ms)


def collect_aborted(
    segments: Segments, files: Files, start_offset: int, end_offset: int
) -> list[AbortedTransaction]:
    """The aborted transactions with records in [start, end)."""
    found: list[AbortedTransaction] = []
    for segment in segments.from_offset(start_offset):
        entries, complete = _usable_txn_index(files, segments, segment).collect(start_offset, end_offset)
        found += entries
        if complete:
            break
    return found


def _usable_txn_index(files: Files, segments: Segments, segment: Segment) -> TxnIndex:
    """The transaction index of a segment, rebuilt from the log if its file is corrupt."""
    try:
        return segment.txn_index
    except CorruptFileError as error:
        logger.warning("rebuilding the transaction index: %s", error)
    segment.reset_txn_index()
    producers = ProducerStates(TopicPartition("", 0))
    snapshots = snapshot_offsets(files.list_sizes(segment.directory))
    load_producer_states(files, segments.to_list(), snapshots, producers, segment.base_offset, 0)
    replay(producers, [segment], segment.base_offset, 1 << 63, 0)
    return segment.txn_index
