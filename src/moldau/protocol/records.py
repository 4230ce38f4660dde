"""Record batches of magic 2: read, check and patch them in place, and build them.

Law: the functions of the append path look at a batch's header and at the lengths of its records, never at
keys or values. Counts and lengths that stand in the bytes are checked before anything is sized by them, and
malformed bytes are a ``KafkaError``, never another exception.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

import crc32c as _crc32c

from moldau.protocol.compression import Buffer, Compression, codec_of, compress, decompress
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.payload import Headers as Headers
from moldau.protocol.payload import Record as Record
from moldau.protocol.payload import append_record, decode_payload
from moldau.protocol.payload import has_null_key as has_null_key
from moldau.protocol.payload import records_error as records_error

# Where the fields of a batch lie. The checksum covers everything from the attributes on, so the base offset and
# the leader epoch can be written by the broker without touching it.
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
_crc_and_attributes = struct.Struct(">Ih")
_from_attributes = struct.Struct(">hiqqqhii")


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
    """The format of the batch or message there: every format has this byte at the same place."""
    try:
        return buffer[position + MAGIC_AT]
    except IndexError:
        raise _corrupt("the buffer ends before the magic byte") from None


# Bound once, as reading a header is on the path of every batch.
_unpack_header = _header.unpack_from
_new_tuple = tuple.__new__


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header as it stands: it checks nothing but that 61 bytes are there."""
    try:
        return _new_tuple(BatchHeader, _unpack_header(buffer, position))
    except struct.error:
        raise _corrupt(f"{len(buffer) - position} bytes are too few for the header of a batch") from None


def crc_matches(buffer: Buffer, position: int, size: int) -> bool:
    """Whether the checksum of the batch of ``size`` bytes is that of its content."""
    (expected,) = _uint32.unpack_from(buffer, position + CRC_AT)
    with memoryview(buffer) as view:
        return bool(_crc32c.crc32c(view[position + ATTRIBUTES_AT : position + size]) == expected)


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


def update_crc(buffer: bytearray | memoryview, position: int) -> None:
    """Writes the checksum of what the batch now holds."""
    (length,) = _int32.unpack_from(buffer, position + BATCH_LENGTH_AT)
    with memoryview(buffer) as view:
        crc = _crc32c.crc32c(view[position + ATTRIBUTES_AT : position + LOG_OVERHEAD + length])
    _uint32.pack_into(buffer, position + CRC_AT, crc)


def batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch; a last one that is cut off is left out.

    Raises CORRUPT_MESSAGE where no batch can start, and INVALID_RECORD at a message of magic 0 or 1.
    """
    end = len(buffer)
    while end - position >= HEADER_SIZE:
        header = read_header(buffer, position)
        if header.magic != MAGIC or header.batch_length < MIN_BATCH_LENGTH:
            raise header_error(header)
        size = LOG_OVERHEAD + header.batch_length
        if size > end - position:
            return
        yield position, header
        position += size


def header_error(header: BatchHeader) -> KafkaError:
    """What to say of a header whose magic or length is none that a batch can have."""
    if header.magic in (0, 1):
        return KafkaError(
            ErrorCode.INVALID_RECORD,
            f"messages of magic {header.magic} are not accepted: the oldest format in use is magic {MAGIC}",
        )
    if header.magic != MAGIC:
        return _corrupt(f"there is no batch format of magic {header.magic}")
    return _corrupt(f"a batch length of {header.batch_length} is less than the {MIN_BATCH_LENGTH} of an empty batch")


def payload_of(buffer: Buffer, position: int, header: BatchHeader, limit: int) -> Buffer:
    """The records of a batch without their compression: a view where there is none, else new bytes."""
    view = memoryview(buffer)[position + RECORDS_AT : position + header.size]
    codec = header.compression
    if codec is Compression.NONE:
        return view
    return decompress(codec, view, limit)


# Decoding ----------------------------------------------------------------------------------------------------


def decode_records(buffer: Buffer, position: int, header: BatchHeader, *, limit: int) -> list[Record]:
    """The records of the batch at ``position``, decompressed to at most ``limit`` bytes.

    The checksum is not looked at. CORRUPT_MESSAGE where the content does not make sense.
    """
    if len(buffer) - position < header.size:
        raise _corrupt(f"a batch of {header.size} bytes where {len(buffer) - position} are left")
    data = bytes(payload_of(buffer, position, header, limit))
    try:
        return _decode(data, header)
    except IndexError:
        raise _corrupt("the records end in the middle") from None


# Building ----------------------------------------------------------------------------------------------------


class BatchBuilder:
    """A batch that grows record by record, as a producer fills it; ``build`` closes it."""

    def __init__(self) -> None:
        self._buffer = bytearray(HEADER_SIZE)
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP
        self.count = 0

    @property
    def size(self) -> int:
        """Bytes of the batch as it would be without compression."""
        return len(self._buffer)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        timestamp_ms: int = NO_TIMESTAMP,
    ) -> None:
        if self.count == 0:
            self._base_timestamp = self._max_timestamp = timestamp_ms
        elif timestamp_ms > self._max_timestamp:
            self._max_timestamp = timestamp_ms
        append_record(self._buffer, timestamp_ms - self._base_timestamp, self.count, key, value, headers)
        self.count += 1

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
        """The batch as it is sent; the builder is used up."""
        attributes = TRANSACTIONAL_MASK if transactional else 0
        return _finish(
            self._buffer,
            compression,
            level,
            BatchHeader(
                base_offset=0,
                batch_length=0,
                partition_leader_epoch=NO_LEADER_EPOCH,
                magic=MAGIC,
                crc=0,
                attributes=attributes,
                last_offset_delta=self.count - 1,
                base_timestamp=self._base_timestamp,
                max_timestamp=self._max_timestamp,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                record_count=self.count,
            ),
        )


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
    """A batch of records at their own offsets.

    What is not given comes from the records: the base timestamp from the first, the largest timestamp and the last
    offset from all. Compaction gives them, as a batch keeps its last offset though the record there is gone.
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
    attributes = (
        TIMESTAMP_TYPE_MASK * timestamp_type
        | TRANSACTIONAL_MASK * transactional
        | CONTROL_MASK * control
        | DELETE_HORIZON_MASK * delete_horizon
    )
    header = BatchHeader(
        base_offset,
        0,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    return _finish(buffer, compression, level, header)


def recompress(
    buffer: Buffer, position: int, header: BatchHeader, target: Compression, level: int | None, limit: int
) -> bytearray:
    """The same records, offsets and producer in a batch of another codec."""
    batch = bytearray(HEADER_SIZE)
    batch += payload_of(buffer, position, header, limit)
    return _finish(batch, target, level, header)


def _finish(buffer: bytearray, compression: Compression, level: int | None, header: BatchHeader) -> bytearray:
    """Compresses the records behind the empty header, and fills the header in."""
    if compression is not Compression.NONE:
        with memoryview(buffer) as view:
            packed = compress(compression, view[HEADER_SIZE:], level)
        buffer[HEADER_SIZE:] = packed
    attributes = header.attributes & ~COMPRESSION_MASK | compression
    _header.pack_into(
        buffer, 0, *header._replace(batch_length=len(buffer) - LOG_OVERHEAD, magic=MAGIC, crc=0, attributes=attributes)
    )
    update_crc(buffer, 0)
    return buffer


def _corrupt(message: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, message)
