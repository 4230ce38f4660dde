"""What compaction retains of one batch, by Kafka's rules. Reads and writes no file.

The last record of every key stays. A tombstone stays until the delete horizon that its first compaction
sets. A transaction marker stays until the records of its transaction are gone, and then as long as a
tombstone. The last batch of a producer stays, if need be without records, for its sequence, and so does the
last batch of what is compacted, for its offset.

Invariant: offsets, producer and sequence of a batch never change. The bytes of a retained record are
copied, not encoded again, unless its batch gets a delete horizon.
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from moldau.protocol.checksum import crc32c
from moldau.protocol.compression import Buffer, Compression, compress
from moldau.protocol.control_records import decode_marker
from moldau.protocol.records import (
    ATTRIBUTES_AT,
    CONTROL_MASK,
    CRC_AT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
    decode_records,
    encode_batch,
    payload_of,
)
from moldau.storage.compaction.offset_map import OffsetMap
from moldau.storage.compaction.record_keys import RetainedRecord, keys_of, records_at, retained_records
from moldau.storage.log.txn_index import AbortedTransaction

#: A batch in the log was accepted, so that its uncompressed size is bounded; this only stops corrupt data.
DECODED_LIMIT = 1 << 30

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC = struct.Struct(">I")


class LastRecord(NamedTuple):
    """The last offset of an active producer's data, or -1, and its epoch."""

    data_offset: int
    epoch: int


@dataclass(slots=True)
class CleaningStats:
    """What a compaction did, for the log message."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_retained: int = 0
    #: Records without a key, which a compacted topic cannot retain.
    without_key: int = 0


class RetainedBatch(NamedTuple):
    """The bytes to write, and what the indexes need."""

    content: Buffer
    max_timestamp: int


class CleanedTransactionMetadata:
    """Which batches belong to aborted transactions, and which markers are needed no more."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        #: Aborted transactions that stay in the transaction index, in the order of their markers.
        self.retained: list[AbortedTransaction] = []
        self._waiting = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_records: set[int] = set()

    def _advance(self, offset: int) -> None:
        while self._waiting and self._waiting[-1].first_offset <= offset:
            entry = self._waiting.pop()
            before = self._aborted.get(entry.producer_id)
            # An entry whose marker comes before the new transaction does not concern its records.
            if before is None or before.last_offset < entry.first_offset:
                self._aborted[entry.producer_id] = entry

    def on_batch_read(self, header: BatchHeader) -> bool:
        """Whether the data batch belongs to an aborted transaction."""
        self._advance(header.last_offset)
        if not header.attributes & TRANSACTIONAL_MASK:
            return False
        self._with_records.add(header.producer_id)
        entry = self._aborted.get(header.producer_id)
        return entry is not None and header.base_offset < entry.last_offset

    def on_control_batch_read(self, header: BatchHeader, view: Buffer) -> bool:
        """Whether the marker can be discarded: no record of its transaction was read."""
        self._advance(header.last_offset)
        if header.record_count == 0:
            return True
        marker = decode_marker(view, 0, header)
        if marker is None:
            return False
        had_records = header.producer_id in self._with_records
        self._with_records.discard(header.producer_id)
        if not marker.committed:
            entry = self._aborted.pop(header.producer_id, None)
            if entry is not None and had_records and entry.last_offset == header.last_offset:
                self.retained.append(entry)
                return False
            return True
        return not had_records


class BatchFilter:
    """Filters batches, which must come in the order of their offsets."""

    def __init__(
        self,
        offset_map: OffsetMap,
        tombstones: Sequence[int],
        first_dirty_offset: int,
        end_offset: int,
        transactions: CleanedTransactionMetadata,
        last_records: Mapping[int, LastRecord],
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        """``tombstones``: the offsets of all tombstones among the records of the map, ascending."""
        self.stats = CleaningStats()
        self.transactions = transactions
        self._map = offset_map
        self._last_offsets = offset_map.last_offsets()
        self._tombstones = tombstones
        self._first_dirty_offset = first_dirty_offset
        self._end_offset = end_offset
        self._last_records = last_records
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms

    def filter(self, header: BatchHeader, view: memoryview) -> RetainedBatch | None:
        """What is retained of the batch; None for nothing. KafkaError when the batch cannot be decoded."""
        stats = self.stats
        stats.bytes_read += len(view)
        stats.records_read += header.record_count
        if header.attributes & CONTROL_MASK:
            kept = self._filter_control(header, view)
        elif self.transactions.on_batch_read(header) or header.record_count == 0:
            kept = self._retain_empty(header)
        else:
            kept = self._filter_data(header, view)
        if kept is not None:
            stats.bytes_written += len(kept.content)
        return kept

    def _filter_control(self, header: BatchHeader, view: memoryview) -> RetainedBatch | None:
        can_discard = self.transactions.on_control_batch_read(header, view)
        if header.record_count == 0:
            return self._retain_empty(header)
        if can_discard and header.has_delete_horizon and header.base_timestamp <= self._now_ms:
            return self._retain_empty(header)
        self.stats.records_retained += header.record_count
        if can_discard and not header.has_delete_horizon:
            return self._with_horizon(header, view, None)
        return RetainedBatch(view, header.max_timestamp)

    def _filter_data(self, header: BatchHeader, view: memoryview) -> RetainedBatch | None:
        base_offset, last_offset = header.base_offset, header.last_offset
        latest_offset = self._map.latest_offset
        if base_offset > latest_offset or self._retains_all(header):
            return self._retain_whole(header, view)
        if self._is_mapped(header) and self._count_last(base_offset, last_offset) == 0:
            return self._retain_empty(header)
        data = bytes(payload_of(view, 0, header, DECODED_LIMIT))
        keep_tombstones = not header.has_delete_horizon or self._now_ms < header.base_timestamp
        if last_offset < self._first_dirty_offset:
            found = keys_of(data, header.record_count)
            in_order = not found.tombstones or (header.has_delete_horizon and keep_tombstones)
            if in_order and not found.without_key and self._map.has_none_of(found.keys):
                return self._retain_whole(header, view)
            self.stats.without_key += found.without_key
        kept = self._find_last(header, data)
        if kept is None:
            kept = retained_records(
                data, header.record_count, base_offset, latest_offset, self._map.get, keep_tombstones
            )
        if not kept:
            return self._retain_empty(header)
        if not header.has_delete_horizon and any(is_tombstone for *_, is_tombstone in kept):
            self.stats.records_retained += len(kept)
            return self._with_horizon(header, view, {base_offset + delta for _, _, delta, _, _ in kept})
        if len(kept) == header.record_count:
            return self._retain_whole(header, view)
        self.stats.records_retained += len(kept)
        return _with_records(header, data, kept)

    def _find_last(self, header: BatchHeader, data: bytes) -> list[RetainedRecord] | None:
        """The retained records, found by their offsets where that is enough, which is much faster."""
        if not self._is_mapped(header) or self._may_have_tombstones(header):
            return None
        low, high = self._last_between(header.base_offset, header.last_offset)
        assert self._last_offsets is not None
        deltas = [offset - header.base_offset for offset in self._last_offsets[low:high]]
        return records_at(data, header.record_count, deltas)

    def _is_mapped(self, header: BatchHeader) -> bool:
        """Whether the offsets in the map alone tell which records of the batch stay."""
        return (
            self._last_offsets is not None
            and header.base_offset >= self._first_dirty_offset
            and header.last_offset <= self._map.latest_offset
        )

    def _last_between(self, first_offset: int, last_offset: int) -> tuple[int, int]:
        """The range of ``_last_offsets`` that is between these two offsets."""
        offsets = self._last_offsets
        assert offsets is not None
        low = bisect_left(offsets, first_offset)
        return low, bisect_right(offsets, last_offset, low)

    def _count_last(self, first_offset: int, last_offset: int) -> int:
        low, high = self._last_between(first_offset, last_offset)
        return high - low

    def _may_have_tombstones(self, header: BatchHeader) -> bool:
        """For a batch for which ``_is_mapped``."""
        low = bisect_left(self._tombstones, header.base_offset)
        return low < len(self._tombstones) and self._tombstones[low] <= header.last_offset

    def _retains_all(self, header: BatchHeader) -> bool:
        """Whether it is certain without reading the records that all of them stay."""
        if not self._is_mapped(header):
            return False
        base_offset, last_offset = header.base_offset, header.last_offset
        if self._count_last(base_offset, last_offset) != header.record_count:
            return False
        return not self._may_have_tombstones(header)

    def _retain_whole(self, header: BatchHeader, view: memoryview) -> RetainedBatch:
        self.stats.records_retained += header.record_count
        return RetainedBatch(view, header.max_timestamp)

    def _retain_empty(self, header: BatchHeader) -> RetainedBatch | None:
        """The header without records if the batch must not disappear, else None."""
        if not self._must_retain(header):
            return None
        attributes = header.attributes & (TIMESTAMP_TYPE_MASK | TRANSACTIONAL_MASK | CONTROL_MASK)
        empty = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0)
        return RetainedBatch(_close(empty, b""), header.max_timestamp)

    def _must_retain(self, header: BatchHeader) -> bool:
        if header.last_offset + 1 == self._end_offset:
            return True
        last = self._last_records.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.data_offset >= 0:
            return header.last_offset == last.data_offset
        return header.is_control and header.producer_epoch == last.epoch

    def _with_horizon(self, header: BatchHeader, view: memoryview, offsets: set[int] | None) -> RetainedBatch:
        """The records of these offsets, or all, in a batch with a delete horizon."""
        records = decode_records(view, 0, header, limit=DECODED_LIMIT)
        kept = [record for record in records if offsets is None or record.offset in offsets]
        max_timestamp = header.max_timestamp
        if not header.attributes & TIMESTAMP_TYPE_MASK:
            max_timestamp = max(record.timestamp for record in kept)
        content = encode_batch(
            kept,
            compression=header.compression,
            base_offset=header.base_offset,
            last_offset_delta=header.last_offset_delta,
            leader_epoch=header.partition_leader_epoch,
            timestamp_type=header.timestamp_type,
            base_timestamp=self._now_ms + self._delete_retention_ms,
            max_timestamp=max_timestamp,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
            control=header.is_control,
            delete_horizon=True,
        )
        return RetainedBatch(content, max_timestamp)


def _with_records(header: BatchHeader, data: bytes, kept: list[RetainedRecord]) -> RetainedBatch:
    """The batch with only these records; their bytes stay, since base offset and base timestamp do."""
    parts: list[bytes] = []
    start = end = kept[0][0]
    for record_start, record_end, *_ in kept:
        if record_start != end:
            parts.append(data[start:end])
            start = record_start
        end = record_end
    parts.append(data[start:end])
    payload = b"".join(parts)
    codec = header.compression
    if codec is not Compression.NONE:
        payload = compress(codec, payload)
    max_timestamp = header.max_timestamp
    if not header.attributes & TIMESTAMP_TYPE_MASK:
        max_timestamp = header.base_timestamp + max(time for *_, time, _ in kept)
    reduced = header._replace(max_timestamp=max_timestamp, record_count=len(kept))
    return RetainedBatch(_close(reduced, payload), max_timestamp)


def _close(header: BatchHeader, payload: bytes) -> bytearray:
    """A batch of this header and payload, with the right length and checksum."""
    batch = bytearray(HEADER_SIZE)
    batch += payload
    _HEADER.pack_into(batch, 0, header.base_offset, len(batch) - LOG_OVERHEAD, *header[2:])
    _CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
    return batch
