"""Bringing producer state up to date from what the log holds.

Invariant: the same ``apply`` as for live appends; state after a replay equals state after the run that
wrote the log, but for what a snapshot leaves out (all but the last batch of a producer).
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
    """KafkaError when what the platform writes comes from a past of the producer or of its coordinator.

    A group coordinator writes in the name of a producer but does not count: each of its batches has
    sequence 0, and none is a repetition.
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
    """A control batch has been written; an aborted transaction goes into the index of its segment."""
    marker = decode_marker(records, 0, header)
    if marker is None:
        return
    ended = producers.apply_marker(
        header,
        base_offset,
        committed=marker.committed,
        coordinator_epoch=marker.coordinator_epoch,
        now_ms=now_ms,
    )
    if ended is not None and not ended.committed:
        index = segment.txn_index
        if not index.entries or index.entries[-1].last_offset < base_offset:
            index.append(producers.aborted(ended))


def replay(producers: ProducerStates, segments: Sequence[Segment], start: int, end: int, now_ms: int) -> None:
    """Applies every batch in [start, end)."""
    for segment in segments:
        if segment.base_offset >= end:
            return  # it may not have been checked yet
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
    """The newest of the snapshots that is not beyond the log end, and the batches behind it."""
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
    """Transactions with records in [start, end) that were aborted."""
    found: list[AbortedTransaction] = []
    for segment in segments.from_offset(start_offset):
        entries, complete = _sound_txn_index(files, segments, segment).collect(start_offset, end_offset)
        found += entries
        if complete:
            break
    return found


def _sound_txn_index(files: Files, segments: Segments, segment: Segment) -> TxnIndex:
    """The index of aborted transactions of a segment, built anew from the log if its file is corrupt."""
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
