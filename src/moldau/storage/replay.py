"""Bringing producer state up to date from what the log holds.

Law: the same ``apply`` as for live appends; state after a replay equals state after the run that wrote the log,
but for what a snapshot leaves out (all but the last batch of a producer).
"""

import logging
from collections.abc import Sequence

from moldau.protocol.control_records import decode_marker
from moldau.protocol.records import BatchHeader
from moldau.storage.errors import CorruptFileError
from moldau.storage.files import Files
from moldau.storage.producer_state import ProducerState
from moldau.storage.segment import SNAPSHOT_SUFFIX, Segment

log = logging.getLogger("moldau.storage")


def apply_control(
    producers: ProducerState,
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


def replay(producers: ProducerState, segments: Sequence[Segment], start: int, end: int, now_ms: int) -> None:
    """Applies every batch in [start, end)."""
    for segment in segments:
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
                apply_control(producers, segment, batch, header, header.base_offset, now_ms)
            else:
                producers.apply(header, header.base_offset, now_ms)


def load_producers(
    files: Files,
    directory: str,
    segments: Sequence[Segment],
    producers: ProducerState,
    log_end_offset: int,
    now_ms: int,
) -> None:
    """The newest snapshot that is not beyond the log end, and the batches behind it."""
    producers.clear()
    start = segments[0].base_offset
    for offset in sorted(snapshot_offsets(files, directory), reverse=True):
        path = f"{directory}/{offset:020d}{SNAPSHOT_SUFFIX}"
        if offset > log_end_offset:
            files.remove(path)
            continue
        try:
            producers.load(files.read_whole(path), path, now_ms)
        except CorruptFileError as error:
            log.warning("ignoring a snapshot of producers: %s", error)
            files.remove(path)
            continue
        start = max(start, offset)
        break
    if start < log_end_offset:
        first = max((at for at, segment in enumerate(segments) if segment.base_offset <= start), default=0)
        replay(producers, segments[first:], start, log_end_offset, now_ms)


def snapshot_offsets(files: Files, directory: str) -> list[int]:
    names = files.list_directory(directory)
    offsets = (name.removesuffix(SNAPSHOT_SUFFIX) for name in names if name.endswith(SNAPSHOT_SUFFIX))
    return [int(offset) for offset in offsets if offset.isdecimal()]
