"""Record batches of magic 2: read, check and patch them in place, and build them.

Invariant: the functions of the append path look at a batch's header and at the lengths of its records,
never at keys or values. Counts and lengths that stand in the bytes are checked before anything is sized by
them, and malformed bytes are a ``KafkaError``, never another exception.
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

# Where the fields of a batch lie. The checksum covers everything from the attributes on, so that a broker can
# write the base offset and the leader epoch without touching it.
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
#: Base offset and length: what the length itself does not count.
LOG_OVERHEAD = LEADER_EPOCH_AT
#: The smallest value that the length of a batch can have.
MIN_BATCH_LENGTH = HEADER_SIZE - LOG_OVERHEAD
MAGIC = 2

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40

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
# Reading a header is on the path of every batch: both are looked up once, and the tuple is made without the
# detour over the constructor that takes its fields by name.
_unpack_header = _header.unpack_from
_new_tuple = tuple.__new__


# Indexes of fields in a ``BatchHeader``, for the path of every append: ``header[PRODUCER_ID]`` is read
# quicker than ``header.producer_id``.
BASE_OFFSET = 0
LEADER_EPOCH = 2
ATTRIBUTES = 5
LAST_OFFSET_DELTA = 6
MAX_TIMESTAMP = 8
PRODUCER_ID = 9


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
        """Bytes of the whole batch, its offset and length included."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> Compression:
        """Raises UNSUPPORTED_COMPRESSION_TYPE for a number that stands for no codec."""
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
        """Whether the base timestamp is the moment from which tombstones and markers may be removed."""
        return bool(self.attributes & DELETE_HORIZON_MASK)

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return add_to_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def next_sequence(self) -> int:
        """The sequence that the producer's next batch must start with."""
        return add_to_sequence(self.last_sequence, 1)


def add_to_sequence(sequence: int, increment: int) -> int:
    """Sequences count from 0 to 2**31 - 1 and then from 0 again."""
    return (sequence + increment) & 0x7FFFFFFF


def magic_of(buffer: Buffer, position: int = 0) -> int:
    """The format of the batch or message there: every format since the first has this byte at this place."""
    if len(buffer) - position <= MAGIC_AT:
        raise _corrupt(f"{len(buffer) - position} bytes end before the magic byte")
    return buffer[position + MAGIC_AT]


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header as it stands: nothing is checked but that 61 bytes are there."""
    try:
        return _new_tuple(BatchHeader, _unpack_header(buffer, position))
    except struct.error:
        raise _corrupt(f"{len(buffer) - position} bytes are too few for the header of a batch") from None


def crc_matches(buffer: Buffer, position: int, size: int) -> bool:
    """Whether the batch of ``size`` bytes is there and has the checksum of its content."""
    if not HEADER_SIZE <= size <= len(buffer) - position:
        return False
    content = memoryview(buffer)[position + ATTRIBUTES_AT : position + size]
    return bool(crc32c(content) == _uint32.unpack_from(buffer, position + CRC_AT)[0])


def assign(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Gives the batch its place in the log; both fields lie outside the checksum."""
    _int64.pack_into(buffer, position, base_offset)
    _int32.pack_into(buffer, position + LEADER_EPOCH_AT, leader_epoch)


def set_append_time(buffer: bytearray | memoryview, position: int, timestamp_ms: int) -> None:
    """Makes the batch one of LogAppendTime: readers then give every record this timestamp."""
    (attributes,) = _int16.unpack_from(buffer, position + ATTRIBUTES_AT)
    _int16.pack_into(buffer, position + ATTRIBUTES_AT, attributes | TIMESTAMP_TYPE_MASK)
    _int64.pack_into(buffer, position + MAX_TIMESTAMP_AT, timestamp_ms)
    update_crc(buffer, position)


def set_create_time(buffer: bytearray | memoryview, position: int) -> None:
    """Makes the batch one of CreateTime: readers then give every record its own timestamp."""
    (attributes,) = _int16.unpack_from(buffer, position + ATTRIBUTES_AT)
    _int16.pack_into(buffer, position + ATTRIBUTES_AT, attributes & ~TIMESTAMP_TYPE_MASK)
    update_crc(buffer, position)


def update_crc(buffer: bytearray | memoryview, position: int) -> None:
    """Writes the checksum of what the batch now holds."""
    (length,) = _int32.unpack_from(buffer, position + BATCH_LENGTH_AT)
    content = memoryview(buffer)[position + ATTRIBUTES_AT : position + LOG_OVERHEAD + length]
    _uint32.pack_into(buffer, position + CRC_AT, crc32c(content))


def batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch; a last one that is cut off is left out.

    Raises CORRUPT_MESSAGE where no batch can start, and INVALID_RECORD at a message of magic 0 or 1.
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
    if end - position > MAGIC_AT and buffer[position + MAGIC_AT] != MAGIC:  # an old message may be this short
        raise format_error(buffer[position + MAGIC_AT], MIN_BATCH_LENGTH)


def format_error(magic: int, batch_length: int) -> KafkaError:
    """What to say of a magic or a length that no batch can have."""
    if magic in (0, 1):
        message = f"messages of magic {magic} are not accepted, only batches of magic {MAGIC}"
        return KafkaError(ErrorCode.INVALID_RECORD, message)
    if magic != MAGIC:
        return _corrupt(f"there is no record format of magic {magic}")
    return _corrupt(f"a batch length of {batch_length} is less than an empty batch's {MIN_BATCH_LENGTH}")


def payload_of(buffer: Buffer, position: int, header: BatchHeader, limit: int) -> Buffer:
    """The records of a batch without their compression: a view where there is none, else new bytes."""
    if not HEADER_SIZE <= header.size <= len(buffer) - position:
        raise _corrupt(f"a batch of {header.size} bytes where there are {len(buffer) - position}")
    view = memoryview(buffer)[position + RECORDS_AT : position + header.size]
    codec = header.compression
    if codec is Compression.NONE:
        return view
    return decompress(codec, view, limit)


def decode_records(buffer: Buffer, position: int, header: BatchHeader, *, limit: int) -> list[Record]:
    """The records of the batch at ``position``, decompressed to at most ``limit`` bytes.

    The checksum is not looked at. CORRUPT_MESSAGE where the content makes no sense.
    """
    if header.record_count < 0:
        raise _corrupt(f"a count of {header.record_count} records")
    data = bytes(payload_of(buffer, position, header, limit))
    append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_MASK else None
    return decode_payload(data, header.record_count, header.base_offset, header.base_timestamp, append_time)


class BatchBuilder:
    """A batch that grows record by record, as a producer fills it, until ``build`` closes it."""

    __slots__ = ("_base_timestamp", "_buffer", "_max_timestamp", "count")

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._buffer = bytearray(HEADER_SIZE)
        self._base_timestamp = self._max_timestamp = NO_TIMESTAMP
        self.count = 0

    @property
    def size(self) -> int:
        """Bytes of the batch as it would be without compression."""
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
        """The batch as it is sent; the builder is empty again."""
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
        batch = _close(self._buffer, header, level)
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
    """A batch of records at the offsets that they name.

    What is not given comes from the records: the base timestamp from the first, the last offset from the
    last, the largest timestamp from all. Compaction gives them: a batch keeps its last offset though the
    record there is gone, and may become empty.
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
    return _close(buffer, header, level)


def recompress(
    buffer: Buffer, position: int, header: BatchHeader, target: Compression, level: int | None, limit: int
) -> bytearray:
    """A new batch with the same records, offsets, times and producer, compressed by ``target``."""
    batch = bytearray(HEADER_SIZE)
    batch += payload_of(buffer, position, header, limit)
    attributes = header.attributes & ~COMPRESSION_MASK | target
    return _close(batch, header._replace(attributes=attributes), level)


def _close(buffer: bytearray, header: BatchHeader, level: int | None) -> bytearray:
    """The batch of the records that stand behind 61 free bytes, compressed as the header says."""
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
