"""The entries of log, index and snapshot files, even of corrupt ones, for ``kafka-dump-log``.

Functions take an open file or its bytes and return values; ``cli/kafka_tools/dump_log`` prints them like
Kafka's tool. The files may be Kafka's or Moldau's, of a running broker or of a broken one.

Invariant: reads only. What a broker refuses to load is shown here; where nothing more can be read, a
``DumpError`` says why, and no other exception is raised.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, TypeVar

from moldau.protocol.checksum import crc32c
from moldau.protocol.errors import KafkaError
from moldau.protocol.records import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    Record,
    add_to_sequence,
    crc_matches,
    decode_records,
    read_header,
)
from moldau.storage.log.txn_index import AbortedTransaction

#: The limit for the uncompressed records of one batch.
MAX_UNCOMPRESSED_BYTES = 1 << 30
#: The largest number of an int32: no limit.
NO_LIMIT = 0x7FFFFFFF

NO_TIMESTAMP = -1

#: The smallest message of the oldest format, without its offset and length.
_MIN_MESSAGE_SIZE = 14
_UP_TO_MAGIC = MAGIC_AT + 1
_OFFSET_AND_SIZE = struct.Struct(">qi")
_LEGACY = struct.Struct(">qiIbb")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_TXN_ENTRY = struct.Struct(">hqqqq")
_SNAPSHOT_HEADER = struct.Struct(">hII")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_SNAPSHOT_VERSION = 1
_TXN_INDEX_VERSION = 0


class DumpError(Exception):
    """Nothing can be read after this point."""


# Batches -----------------------------------------------------------------------------------------------


class LegacyHeader(NamedTuple):
    """A message of magic 0 or 1, as brokers before Kafka 0.11 wrote it."""

    last_offset: int
    message_size: int
    crc: int
    magic: int
    attributes: int
    #: -1 in magic 0, which has none.
    max_timestamp: int

    @property
    def size(self) -> int:
        return LOG_OVERHEAD + self.message_size

    @property
    def is_control(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class DumpedBatch:
    position: int
    header: BatchHeader | LegacyHeader
    data: bytes
    #: Whether the checksum is that of the content.
    valid: bool

    @property
    def size(self) -> int:
        return len(self.data)


def read_batches(
    file: BinaryIO, name: str, *, start: int = 0, limit: int = NO_LIMIT
) -> Iterator[DumpedBatch]:
    """The batches from ``start`` on, within ``limit`` bytes; an incomplete one at the end is left out.

    The caller sees from positions and sizes whether bytes are left after the last batch.
    """
    end = min(file.seek(0, 2), start + limit)
    position = start
    while position <= end - _UP_TO_MAGIC:
        file.seek(position)
        head = file.read(_UP_TO_MAGIC)
        _, size = _OFFSET_AND_SIZE.unpack_from(head)
        if size < _MIN_MESSAGE_SIZE:
            raise DumpError(
                f"Found record size {size} smaller than minimum record overhead ({_MIN_MESSAGE_SIZE}) "
                f"in file {name}."
            )
        if size > end - position - LOG_OVERHEAD:
            return
        data = head + file.read(LOG_OVERHEAD + size - _UP_TO_MAGIC)
        if len(data) < LOG_OVERHEAD + size:
            return  # the file was truncated meanwhile
        batch = _batch(data, position, name)
        yield batch
        position += batch.size


def _batch(data: bytes, position: int, name: str) -> DumpedBatch:
    if data[MAGIC_AT] < MAGIC:
        header = _legacy_header(data, position, name)
        return DumpedBatch(position, header, data, zlib.crc32(memoryview(data)[16:]) == header.crc)
    if len(data) < HEADER_SIZE:
        raise DumpError(
            f"Found a batch of {len(data)} bytes at position {position}, smaller than its header "
            f"({HEADER_SIZE}) in file {name}."
        )
    return DumpedBatch(position, read_header(data), data, crc_matches(data, 0, len(data)))


def _legacy_header(data: bytes, position: int, name: str) -> LegacyHeader:
    try:
        offset, size, crc, magic, attributes = _LEGACY.unpack_from(data)
        timestamp = _INT64.unpack_from(data, _LEGACY.size)[0] if magic else NO_TIMESTAMP
    except struct.error:
        raise DumpError(
            f"Found a message too short for its header at position {position} in {name}."
        ) from None
    return LegacyHeader(offset, size, crc, magic, attributes, timestamp)


def read_records(batch: DumpedBatch) -> list[Record]:
    """The uncompressed records of a batch; DumpError where they cannot be decoded."""
    if isinstance(batch.header, LegacyHeader):
        return [_legacy_record(batch.data, batch.header)]
    try:
        return decode_records(batch.data, 0, batch.header, limit=MAX_UNCOMPRESSED_BYTES)
    except KafkaError as error:
        raise DumpError(
            f"Cannot read the records of the batch at position {batch.position}: {error}"
        ) from None


def _legacy_record(data: bytes, header: LegacyHeader) -> Record:
    """A message of the old formats; one that contains compressed messages is shown as one message."""
    key, at = _legacy_bytes(data, _LEGACY.size + (8 if header.magic else 0))
    value, _ = _legacy_bytes(data, at)
    return Record(header.last_offset, header.max_timestamp, key, value)


def _legacy_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    try:
        (size,) = _INT32.unpack_from(data, at)
    except struct.error:
        raise DumpError("A message of the old format ends in the middle.") from None
    if size < 0:
        return None, at + 4
    if at + 4 + size > len(data):
        raise DumpError("A message of the old format ends in the middle.")
    return data[at + 4 : at + 4 + size], at + 4 + size


def sequence_of(header: BatchHeader, record: Record) -> int:
    """The sequence number of a record; -1 where its batch has none."""
    if header.base_sequence < 0:
        return -1
    return add_to_sequence(header.base_sequence, record.offset - header.base_offset)


def timestamp_type(batch: DumpedBatch) -> str:
    """The name that Kafka's tools print."""
    if batch.header.magic == 0:
        return "NoTimestampType"
    return "LogAppendTime" if batch.header.attributes & TIMESTAMP_TYPE_MASK else "CreateTime"


def compression_number(batch: DumpedBatch) -> int:
    return batch.header.attributes & COMPRESSION_MASK


# Indexes -----------------------------------------------------------------------------------------------


class OffsetEntry(NamedTuple):
    offset: int
    position: int


class TimeEntry(NamedTuple):
    timestamp: int
    offset: int


_Entry = TypeVar("_Entry", OffsetEntry, TimeEntry)


def offset_entries(data: bytes, base_offset: int) -> list[OffsetEntry]:
    """All complete entries of an ``.index`` file, including the unused ones of a running broker."""
    whole = len(data) // _OFFSET_ENTRY.size * _OFFSET_ENTRY.size
    pairs = _OFFSET_ENTRY.iter_unpack(memoryview(data)[:whole])
    return [OffsetEntry(base_offset + relative, position) for relative, position in pairs]


def time_entries(data: bytes, base_offset: int) -> list[TimeEntry]:
    """All complete entries of a ``.timeindex`` file, including the unused ones of a running broker."""
    whole = len(data) // _TIME_ENTRY.size * _TIME_ENTRY.size
    pairs = _TIME_ENTRY.iter_unpack(memoryview(data)[:whole])
    return [TimeEntry(timestamp, base_offset + relative) for timestamp, relative in pairs]


def used_entries(entries: list[_Entry], base_offset: int) -> list[_Entry]:
    """The entries before the unused ones: Kafka preallocates the file with zeros."""
    for index, entry in enumerate(entries):
        if index and entry.offset == base_offset:
            return entries[:index]
    return entries


def offset_index_fault(data: bytes, base_offset: int, path: str) -> str | None:
    """Why a broker would rebuild this index at start, in Kafka's words; None when it would not."""
    if len(data) % _OFFSET_ENTRY.size:
        return (
            f"Index file {path} is corrupt, found {len(data)} bytes which is neither positive nor a multiple "
            f"of {_OFFSET_ENTRY.size}"
        )
    entries = offset_entries(data, base_offset)
    if entries and entries[-1].offset < base_offset:
        return (
            f"Corrupt index found, index file ({path}) has non-zero size but the last offset is "
            f"{entries[-1].offset} which is less than the base offset {base_offset}"
        )
    return None


def time_index_fault(data: bytes, base_offset: int, path: str) -> str | None:
    entries = time_entries(data, base_offset)
    said = f"Corrupt time index found, time index file ({path}) has non-zero size but"
    if entries and entries[-1].timestamp < entries[0].timestamp:
        return (
            f"{said} the last timestamp is {entries[-1].timestamp} which is less than the first timestamp "
            f"{entries[0].timestamp}"
        )
    if entries and entries[-1].offset < base_offset:
        last = entries[-1].offset
        return f"{said} the last offset is {last} which is less than the first offset {base_offset}"
    if len(data) % _TIME_ENTRY.size:
        return (
            f"Time index file {path} is corrupt, found {len(data)} bytes which is neither positive nor a "
            f"multiple of {_TIME_ENTRY.size}"
        )
    return None


def last_offset_at(log: BinaryIO, name: str, position: int, limit: int) -> int:
    """The last offset of the batch that starts at a position of the log."""
    for batch in read_batches(log, name, start=position, limit=limit):
        return batch.header.last_offset
    raise DumpError(f"There is no whole batch at position {position} of {name} within {limit} bytes.")


def batch_with_offset(
    log: BinaryIO, name: str, entries: list[OffsetEntry], offset: int
) -> DumpedBatch | None:
    """The first batch that ends at or after an offset, found with the index."""
    start = 0
    for entry in entries:
        if entry.offset > offset:
            break
        start = entry.position
    for batch in read_batches(log, name, start=start):
        if batch.header.last_offset >= offset:
            return batch
    return None


# Transactions and producers ----------------------------------------------------------------------------


def aborted_transactions(data: bytes, path: str) -> list[AbortedTransaction]:
    """The complete entries of a ``.txnindex`` file; see ``trailing_txn_bytes`` for what is left."""
    whole = len(data) // _TXN_ENTRY.size * _TXN_ENTRY.size
    found = []
    for version, *numbers in _TXN_ENTRY.iter_unpack(memoryview(data)[:whole]):
        if version > _TXN_INDEX_VERSION:
            raise DumpError(
                f"Unexpected aborted transaction version {version} in transaction index {path}, "
                f"current version is {_TXN_INDEX_VERSION}"
            )
        found.append(AbortedTransaction(*numbers))
    return found


def trailing_txn_bytes(data: bytes) -> int:
    return len(data) % _TXN_ENTRY.size


class ProducerSnapshotEntry(NamedTuple):
    """One producer in a ``.snapshot`` file; -1 for what it does not have."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int

    @property
    def first_sequence(self) -> int:
        return add_to_sequence(self.last_sequence, -self.offset_delta)


def producer_entries(data: bytes) -> list[ProducerSnapshotEntry]:
    """The producers of a ``.snapshot`` file; DumpError when it is corrupt."""
    if len(data) < _SNAPSHOT_HEADER.size:
        raise DumpError(f"Snapshot failed schema validation: {len(data)} bytes are too few for its header")
    version, stored, count = _SNAPSHOT_HEADER.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        raise DumpError(f"Snapshot contained an unknown file version {version}")
    fitting = (len(data) - _SNAPSHOT_HEADER.size) // _SNAPSHOT_ENTRY.size
    if count > fitting:
        raise DumpError(
            f"Snapshot failed schema validation: it claims {count} producers and has room for {fitting}"
        )
    computed = crc32c(memoryview(data)[6:])
    if computed != stored:
        raise DumpError(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"
        )
    size = _SNAPSHOT_ENTRY.size
    starts = range(_SNAPSHOT_HEADER.size, _SNAPSHOT_HEADER.size + count * size, size)
    return [ProducerSnapshotEntry(*_SNAPSHOT_ENTRY.unpack_from(data, start)) for start in starts]
