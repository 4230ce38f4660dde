"""Record batches of magic 2: read, check and patch them in place, and build them.

Invariant: the functions on the path of an append read the header of a batch and the lengths of its records,
never keys or values. Counts and lengths are checked before anything is allocated for them. Malformed bytes
raise ``KafkaError`` and nothing else.
"""

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from moldau.protocol.checksum import crc32c
from moldau.protocol.compression import Buffer, Compression, codec_of, compress, decompress
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.payload import Headers as Headers
from moldau.protocol.payload import Record as Record
from moldau.protocol.payload import append_record, decode_payload
from moldau.protocol.payload import has_null_key as has_null_key
from moldau.protocol.payload import records_error as records_error

# The positions of the fields in a batch. The checksum covers everything from the attributes on, so that a
# broker can write the base offset and the leader epoch without changing it.
BASE_OFFSET_AT = 0
BATCH_LENGTH_AT = 8
LEADER_EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
LAST_OFFSET_DELTA_AT = 23
BASE_TIMESTAMP_AT = 27
MAX_TIMESTAMP_AT = 35
PRODUCER_ID_AT = 43
PRODUCER_EPOCH_AT = 51
BASE_SEQUENCE_AT = 53
RECORD_COUNT_AT = 57
RECORDS_AT = 61

#: Bytes before the first record.
HEADER_SIZE = RECORDS_AT
#: Base offset and length, which the length itself does not count.
LOG_OVERHEAD = LEADER_EPOCH_AT
#: The smallest possible value of the length field.
MIN_BATCH_LENGTH = HEADER_SIZE - LOG_OVERHEAD
MAGIC = 2

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40

#: The lower byte of the attributes, which has all that the masks name.
_FLAGS_AT = ATTRIBUTES_AT + 1

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1
NO_TIMESTAMP = -1

_header = struct.Struct(">qiibIhiqqqhii")
_int64 = struct.Struct(">q")
_int32 = struct.Struct(">i")
_uint32 = struct.Struct(">I")
_int16 = struct.Struct(">h")
# A header is read for every batch, so both are looked up once. ``tuple.__new__`` is faster than the
# constructor of the named tuple.
_unpack_header = _header.unpack_from
_new_tuple = tuple.__new__


# Indexes of fields in a ``BatchHeader``, for the path of every append: ``header[PRODUCER_ID]`` is read
# quicker than ``header.producer_id``.
BASE_OFFSET = 0
LEADER_EPOCH = 2
ATTRIBUTES = 5
LAST_OFFSET_DELTA = 6
BASE_TIMESTAMP = 7
MAX_TIMESTAMP = 8
PRODUCER_ID = 9
RECORD_COUNT = 12


class TimestampType(IntEnum):
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The fields before the records, in their order on the wire."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, including base offset and length."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> Compression:
        """Raises UNSUPPORTED_COMPRESSION_TYPE for an unknown codec."""
        return codec_of(self.attributes & COMPRESSION_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & TIMESTAMP_TYPE_MASK:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_MASK)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the base timestamp is the time from which tombstones and markers may be removed."""
        return bool(self.attributes & DELETE_HORIZON_MASK)

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return add_to_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def next_sequence(self) -> int:
        """The base sequence of the producer's next batch."""
        return add_to_sequence(self.last_sequence, 1)


def add_to_sequence(sequence: int, increment: int) -> int:
    """Sequences wrap around from 2**31 - 1 to 0."""
    return (sequence + increment) & 0x7FFFFFFF


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header; only checked is that its 61 bytes are there."""
    try:
        return _new_tuple(BatchHeader, _unpack_header(buffer, position))
    except struct.error:
        raise _corrupt(f"{len(buffer) - position} bytes are too few for the header of a batch") from None


def starts_transactional(buffer: Buffer) -> bool:
    """Whether the first batch belongs to a transaction. A message of magic 0 or 1 has other fields there."""
    return (
        len(buffer) >= LAST_OFFSET_DELTA_AT
        and buffer[MAGIC_AT] == MAGIC
        and bool(buffer[_FLAGS_AT] & TRANSACTIONAL_MASK)
    )


def crc_matches(buffer: Buffer, position: int, size: int) -> bool:
    """Whether the batch of ``size`` bytes is complete and has the right checksum."""
    if not HEADER_SIZE <= size <= len(buffer) - position:
        return False
    content = memoryview(buffer)[position + ATTRIBUTES_AT : position + size]
    return bool(crc32c(content) == _uint32.unpack_from(buffer, position + CRC_AT)[0])


def assign(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Writes base offset and leader epoch, which the checksum does not cover."""
    _int64.pack_into(buffer, position, base_offset)
    _int32.pack_into(buffer, position + LEADER_EPOCH_AT, leader_epoch)


def set_append_time(buffer: bytearray | memoryview, position: int, timestamp_ms: int) -> None:
    """Sets the timestamp type to LogAppendTime: every record then has this timestamp."""
    (attributes,) = _int16.unpack_from(buffer, position + ATTRIBUTES_AT)
    _int16.pack_into(buffer, position + ATTRIBUTES_AT, attributes | TIMESTAMP_TYPE_MASK)
    _int64.pack_into(buffer, position + MAX_TIMESTAMP_AT, timestamp_ms)
    update_crc(buffer, position)


def set_create_time(buffer: bytearray | memoryview, position: int) -> None:
    """Sets the timestamp type to CreateTime: every record then has its own timestamp."""
    (attributes,) = _int16.unpack_from(buffer, position + ATTRIBUTES_AT)
    _int16.pack_into(buffer, position + ATTRIBUTES_AT, attributes & ~TIMESTAMP_TYPE_MASK)
    update_crc(buffer, position)


def set_max_timestamp(buffer: bytearray | memoryview, position: int, timestamp_ms: int) -> None:
    """Sets the largest timestamp of the records."""
    _int64.pack_into(buffer, position + MAX_TIMESTAMP_AT, timestamp_ms)
    update_crc(buffer, position)


def update_crc(buffer: bytearray | memoryview, position: int) -> None:
    """Writes the checksum of the current content."""
    (length,) = _int32.unpack_from(buffer, position + BATCH_LENGTH_AT)
    content = memoryview(buffer)[position + ATTRIBUTES_AT : position + LOG_OVERHEAD + length]
    _uint32.pack_into(buffer, position + CRC_AT, crc32c(content))


def batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every complete batch; an incomplete one at the end is left out.

    Raises CORRUPT_MESSAGE where no batch can begin, and INVALID_RECORD at a message of magic 0 or 1.
    """
    end = len(buffer)
    while end - position >= HEADER_SIZE:
        header = read_header(buffer, position)
        if header.magic != MAGIC or header.batch_length < MIN_BATCH_LENGTH:
            raise format_error(header.magic, header.batch_length)
        size = LOG_OVERHEAD + header.batch_length
        if size > end - position:
            return
        yield position, header
        position += size
    if (
        end - position > MAGIC_AT and buffer[position + MAGIC_AT] != MAGIC
    ):  # a message of magic 0 or 1 may be this short
        raise format_error(buffer[position + MAGIC_AT], MIN_BATCH_LENGTH)


def format_error(magic: int, batch_length: int) -> KafkaError:
    """The error for a magic or a length that no batch can have."""
    if magic in (0, 1):
        message = f"messages of magic {magic} are not accepted, only batches of magic {MAGIC}"
        return KafkaError(ErrorCode.INVALID_RECORD, message)
    if magic != MAGIC:
        return _corrupt(f"there is no record format of magic {magic}")
    return _corrupt(f"a batch length of {batch_length} is less than an empty batch's {MIN_BATCH_LENGTH}")


def payload_of(buffer: Buffer, position: int, header: BatchHeader, limit: int) -> Buffer:
    """The uncompressed records of a batch: a view if they are not compressed, else new bytes."""
    if not HEADER_SIZE <= header.size <= len(buffer) - position:
        raise _corrupt(f"a batch of {header.size} bytes where there are {len(buffer) - position}")
    view = memoryview(buffer)[position + RECORDS_AT : position + header.size]
    codec = header.compression
    if codec is Compression.NONE:
        return view
    return decompress(codec, view, limit)


def decode_records(buffer: Buffer, position: int, header: BatchHeader, *, limit: int) -> list[Record]:
    """The records of the batch at ``position``, decompressed to at most ``limit`` bytes.

    The checksum is not verified. CORRUPT_MESSAGE where the records cannot be decoded.
    """
    if header.record_count < 0:
        raise _corrupt(f"a count of {header.record_count} records")
    data = bytes(payload_of(buffer, position, header, limit))
    append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_MASK else None
    return decode_payload(data, header.record_count, header.base_offset, header.base_timestamp, append_time)


class BatchBuilder:
    """Collects the records of a producer until ``build`` makes a batch of them."""

    __slots__ = ("_base_timestamp", "_buffer", "_max_timestamp", "count")

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._buffer = bytearray(HEADER_SIZE)
        self._base_timestamp = self._max_timestamp = NO_TIMESTAMP
        self.count = 0

    @property
    def size(self) -> int:
        """The uncompressed size of the batch."""
        return len(self._buffer)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int = NO_TIMESTAMP,
    ) -> None:
        count = self.count
        if count == 0:
            self._base_timestamp = self._max_timestamp = timestamp_ms
        elif timestamp_ms > self._max_timestamp:
            self._max_timestamp = timestamp_ms
        append_record(self._buffer, timestamp_ms - self._base_timestamp, count, key, value, headers)
        self.count = count + 1

    def build(
        self,
        *,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
    ) -> bytearray:
        """The finished batch; the builder is empty after this."""
        assert self.count, "a batch has at least one record"
        header = BatchHeader(
            base_offset=0,
            batch_length=0,
            partition_leader_epoch=NO_LEADER_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=compression | TRANSACTIONAL_MASK * transactional,
            last_offset_delta=self.count - 1,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=self.count,
        )
        batch = _finish_batch(self._buffer, header, level)
        self._reset()
        return batch


def encode_batch(
    records: Sequence[Record],
    *,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
    leader_epoch: int = NO_LEADER_EPOCH,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    delete_horizon: bool = False,
) -> bytearray:
    """A batch of these records, at their offsets.

    By default the base timestamp is that of the first record, the last offset that of the last record, and
    the largest timestamp that of all. Compaction sets them, as a batch keeps them when its records are
    removed.
    """
    if base_timestamp is None:
        base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    if last_offset_delta is None:
        last_offset_delta = records[-1].offset - base_offset if records else 0
    buffer = bytearray(HEADER_SIZE)
    for offset, timestamp, key, value, headers in records:
        append_record(buffer, timestamp - base_timestamp, offset - base_offset, key, value, headers)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=compression
        | TIMESTAMP_TYPE_MASK * timestamp_type
        | TRANSACTIONAL_MASK * transactional
        | CONTROL_MASK * control
        | DELETE_HORIZON_MASK * delete_horizon,
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return _finish_batch(buffer, header, level)


def recompress(
    buffer: Buffer, position: int, header: BatchHeader, target: Compression, level: int | None, limit: int
) -> bytearray:
    """A new batch with the same records, offsets, timestamps and producer, compressed with ``target``."""
    batch = bytearray(HEADER_SIZE)
    batch += payload_of(buffer, position, header, limit)
    attributes = header.attributes & ~COMPRESSION_MASK | target
    return _finish_batch(batch, header._replace(attributes=attributes), level)


def truncate_batch(
    buffer: Buffer, position: int, header: BatchHeader, end_offset: int, *, limit: int
) -> bytearray | None:
    """The batch with only its records below ``end_offset``; None when there are none.

    Everything else stays, so that a reader cannot tell it from a batch that a producer sent like this. The
    records are decoded, to at most ``limit`` bytes.
    """
    records = decode_records(buffer, position, header, limit=limit)
    kept = [record for record in records if record.offset < end_offset]
    if not kept:
        return None
    timestamp_type = header.timestamp_type
    return encode_batch(
        kept,
        compression=header.compression,
        base_offset=header.base_offset,
        last_offset_delta=min(header.last_offset, end_offset - 1) - header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        timestamp_type=timestamp_type,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp if timestamp_type is TimestampType.LOG_APPEND_TIME else None,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        delete_horizon=header.has_delete_horizon,
    )


def _finish_batch(buffer: bytearray, header: BatchHeader, level: int | None) -> bytearray:
    """Makes a batch of records that were written after 61 free bytes, compressed as the header says."""
    codec = header.compression
    if codec is not Compression.NONE:
        packed = compress(codec, memoryview(buffer)[HEADER_SIZE:], level)
        buffer = bytearray(HEADER_SIZE)
        buffer += packed
    _header.pack_into(buffer, 0, header.base_offset, len(buffer) - LOG_OVERHEAD, *header[2:])
    update_crc(buffer, 0)
    return buffer


def _corrupt(message: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, message)
