"""Validation of a produced batch: what is rejected, and with which error code.

Checks run in the order of Apache Kafka's broker, so that a batch with two faults gets the same error.
Every record is checked, and none is decoded. Pure.

Invariant: the work is bounded. On the event loop a batch that is more than ``AT_ONCE`` raises ``HeavyBatch``
before it costs much; in a thread the settings bound what a batch may hold. An answer names a few records.
"""

from collections.abc import Iterable
from typing import NamedTuple

from moldau.base.names import TopicPartition
from moldau.protocol.checksum import crc32c
from moldau.protocol.compression import Buffer, Compression, decompress
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.record_checks import (
    TimestampDeltas,
    TooManyHeaders,
    check_records,
    keyless_records,
    timestamp_deltas,
)
from moldau.protocol.records import (
    ATTRIBUTES,
    ATTRIBUTES_AT,
    BASE_TIMESTAMP,
    COMPRESSION_MASK,
    CONTROL_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP,
    MIN_BATCH_LENGTH,
    RECORD_COUNT,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    batches,
    crc_matches,
    has_null_key,
    read_header,
    recompress,
    set_append_time,
    set_create_time,
    set_max_timestamp,
)
from moldau.storage.log.config import LogConfig

#: The first Produce version in which a client may use zstd.
FIRST_PRODUCE_VERSION_WITH_ZSTD = 7

#: As a plain number: comparing with a member of an enum costs more than reading the whole header.
_ZSTD = int(Compression.ZSTD)

#: Kafka's minimum for the length field of a batch of any format.
_MIN_RECORD_OVERHEAD = 14


#: An answer names at most so many of the records that were the reason.
NAMED_RECORDS = 10


class BatchLimits(NamedTuple):
    """How much a batch may hold: each bounds memory, or the time of a check."""

    records: int
    #: Headers of all records together.
    headers: int
    uncompressed_bytes: int


#: What may be done on the event loop: about 10 ms of work, for records as awkward as they can be.
AT_ONCE = BatchLimits(10_000, 20_000, 4 * 1024 * 1024)
#: Bytes that may be compressed on the event loop: the highest levels are a thousand times slower than checks.
_COMPRESSED_AT_ONCE = 64 * 1024
#: For what the platform itself writes.
NO_LIMITS = BatchLimits(1 << 31, 1 << 31, 1 << 31)
#: A batch may hold so many times its own size uncompressed, however large that is.
_ALWAYS_ALLOWED_RATIO = 3


class HeavyBatch(Exception):
    """The batch is more work than the event loop may do at once: it has to be checked in a thread."""


class Appended(NamedTuple):
    """Where a batch was appended."""

    base_offset: int
    last_offset: int
    #: The broker's time where the topic has LogAppendTime, the batch's timestamp for a duplicate, else -1.
    append_time_ms: int
    log_start_offset: int
    duplicate: bool
    #: flush.messages is reached or a segment was sealed: a flush should begin soon.
    flush_due: bool


class AppendError(KafkaError):
    """A rejected batch: the message, and which records were the reason.

    The response follows Apache Kafka's broker. It has the log start offset (``has_log_start_offset``) for
    faults that Kafka finds after it looked at the log, else -1. It has the message only where Kafka sends one
    (``message_for_client``); otherwise the message is for the broker's own log.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str | None = None,
        record_errors: Iterable[tuple[int, str]] = (),
        *,
        has_log_start_offset: bool = False,
        message_for_client: bool = False,
    ) -> None:
        super().__init__(code, message)
        self.record_errors = list(record_errors)
        self.has_log_start_offset = has_log_start_offset
        self.message_for_client = message_for_client or bool(self.record_errors)
        self.log_start_offset = -1


def _invalid(code: ErrorCode, message: str, record_errors: Iterable[tuple[int, str]] = ()) -> AppendError:
    return AppendError(code, message, record_errors, has_log_start_offset=True)


def check_batch(
    view: memoryview,
    config: LogConfig,
    topic_partition: TopicPartition,
    now_ms: int,
    produce_version: int,
    limits: BatchLimits = AT_ONCE,
) -> BatchHeader:
    """The header of the one batch in ``view``, or AppendError; HeavyBatch where it is more than ``AT_ONCE``.

    A largest timestamp that the records do not have is put right, as Apache Kafka's broker does.
    """
    size = len(view)
    if size < HEADER_SIZE:
        raise _not_a_batch(view)
    header = read_header(view)
    (
        base_offset,
        length,
        _,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        _,
        base_sequence,
        count,
    ) = header
    if length != size - LOG_OVERHEAD or magic != MAGIC:
        raise _not_one_batch(view, header)
    codec = attributes & COMPRESSION_MASK
    if codec >= _ZSTD:
        _check_codec(codec, produce_version)
    if base_offset != 0:
        raise _bad_base_offset(base_offset, topic_partition)
    if size > config.max_message_bytes or size > config.segment_bytes:
        raise too_large(size, config, topic_partition)
    if crc32c(view[ATTRIBUTES_AT:]) != crc:
        raise _bad_checksum(crc, topic_partition)
    if last_offset_delta != count - 1 or count <= 0 or attributes & CONTROL_MASK:
        raise _bad_counts(header)
    if producer_id >= 0 and base_sequence < 0:
        raise _bad_counts(header)
    payload, (lowest, highest) = checked_records(view, header, limits)
    if not config.log_append_time:
        lowest, highest = lowest + base_timestamp, highest + base_timestamp
        if (
            highest > now_ms + config.message_timestamp_after_max_ms
            or now_ms - lowest > config.message_timestamp_before_max_ms
        ):
            _check_timestamps(payload, header, config, now_ms)
        if highest != max_timestamp:
            header = _with_max_timestamp(view, highest)
    if config.compact and has_null_key(payload, count) is not None:
        raise _missing_keys(payload, count, topic_partition)
    return header


def own_header(view: memoryview, config: LogConfig, topic_partition: TopicPartition) -> BatchHeader:
    """The header of a batch that the platform itself has just built: only its size can be wrong."""
    size = len(view)
    if size > config.max_message_bytes or size > config.segment_bytes:
        raise too_large(size, config, topic_partition)
    return read_header(view)


def checked_records(
    view: memoryview, header: BatchHeader, limits: BatchLimits
) -> tuple[Buffer, TimestampDeltas]:
    """The uncompressed records of a batch, each of which is right, and the span of their timestamps."""
    count = header[RECORD_COUNT]
    if count > limits.records:
        raise _too_much(
            limits, f"counts {count} records, more than {limits.records} (moldau.batch.records.max)"
        )
    codec = header[ATTRIBUTES] & COMPRESSION_MASK
    payload = _decompressed(view, codec, limits) if codec else view[HEADER_SIZE:]
    try:
        claimed_delta = header[MAX_TIMESTAMP] - header[BASE_TIMESTAMP]
        return payload, check_records(payload, count, claimed_delta, limits.headers)
    except TooManyHeaders:
        what = f"has more than {limits.headers} headers (moldau.batch.headers.max)"
        raise _too_much(limits, what) from None
    except KafkaError as error:
        raise _invalid(error.code, error.message or "") from None


def check_and_transform(
    view: memoryview,
    config: LogConfig,
    topic_partition: TopicPartition,
    now_ms: int,
    produce_version: int,
    limits: BatchLimits,
) -> tuple[memoryview, BatchHeader]:
    """The batch as it can be written, but for its offsets; works in any thread."""
    header = check_batch(view, config, topic_partition, now_ms, produce_version, limits)
    return transform(view, header, config, topic_partition, now_ms, limits)


def transform(
    view: memoryview,
    header: BatchHeader,
    config: LogConfig,
    topic_partition: TopicPartition,
    now_ms: int,
    limits: BatchLimits = AT_ONCE,
) -> tuple[memoryview, BatchHeader]:
    """The batch as the topic requires it: with LogAppendTime, or with another compression."""
    codec = config.compression
    if codec is not None and codec != header.attributes & COMPRESSION_MASK:
        batch = _recompressed(view, header, codec, config.compression_level(codec), limits)
        if len(batch) > config.max_message_bytes:
            raise too_large(len(batch), config, topic_partition)
        view = memoryview(batch)
    if config.log_append_time:
        set_append_time(view, 0, now_ms)
    elif header.attributes & TIMESTAMP_TYPE_MASK:
        # The topic decides on the timestamp type, not the client.
        set_create_time(view, 0)
    return view, read_header(view)


def _recompressed(
    view: memoryview, header: BatchHeader, codec: Compression, level: int | None, limits: BatchLimits
) -> bytearray:
    if limits is not AT_ONCE:
        return recompress(view, 0, header, codec, level, uncompressed_limit(view, limits))
    if len(view) > _COMPRESSED_AT_ONCE:
        raise HeavyBatch
    try:
        return recompress(view, 0, header, codec, level, _COMPRESSED_AT_ONCE)
    except KafkaError:  # MESSAGE_TOO_LARGE: the batch could be decompressed before
        raise HeavyBatch from None


def _bad_base_offset(base_offset: int, topic_partition: TopicPartition) -> AppendError:
    return _invalid(
        ErrorCode.INVALID_RECORD,
        f"The baseOffset of the record batch in the append to {topic_partition} should be 0, "
        f"but it is {base_offset}",
    )


def _bad_checksum(crc: int, topic_partition: TopicPartition) -> AppendError:
    return AppendError(
        ErrorCode.CORRUPT_MESSAGE,
        f"Record is corrupt (stored crc = {crc}) in topic partition {topic_partition}",
    )


def too_large(size: int, config: LogConfig, topic_partition: TopicPartition) -> AppendError:
    if size <= config.max_message_bytes:
        return AppendError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"Message batch size is {size} bytes in append to partition {topic_partition}, "
            f"which exceeds the maximum configured segment size of {config.segment_bytes}.",
        )
    return AppendError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch size in the append to {topic_partition} is {size} bytes "
        f"which exceeds the maximum configured value of {config.max_message_bytes}.",
    )


def offline_error(topic_partition: TopicPartition, reason: str) -> AppendError:
    """For an append to a log that is offline or whose disk is full."""
    message = f"Error while appending records to {topic_partition}: {reason}"
    return AppendError(ErrorCode.KAFKA_STORAGE_ERROR, message, message_for_client=True)


def out_of_range(offset: int, topic_partition: TopicPartition, start: int, end: int) -> KafkaError:
    """For a fetch of an offset that is not in the log."""
    return KafkaError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"Received request for offset {offset} for partition {topic_partition}, "
        f"but we only have log segments from offset {start} up to {end}.",
    )


def null_records() -> AppendError:
    """For a partition whose records are null; Apache Kafka's broker never answers such a request."""
    return AppendError(
        ErrorCode.INVALID_RECORD, "the records of the partition are null", message_for_client=True
    )


def _not_a_batch(view: memoryview) -> AppendError:
    magic = view[MAGIC_AT] if len(view) > MAGIC_AT else MAGIC
    if magic > MAGIC:
        return _bad_magic(magic)
    return AppendError(
        ErrorCode.INVALID_RECORD, "Produce requests must have at least one record batch per partition"
    )


def _bad_magic(magic: int) -> AppendError:
    return AppendError(
        ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}", message_for_client=True
    )


def _not_one_batch(view: memoryview, header: BatchHeader) -> AppendError:
    magic = view[MAGIC_AT]
    if magic > MAGIC:
        return _bad_magic(magic)
    if magic < MAGIC:
        return AppendError(
            ErrorCode.INVALID_RECORD,
            f"Produce requests are only allowed to contain record batches with magic version {MAGIC}",
        )
    length = header.batch_length
    if length < MIN_BATCH_LENGTH:
        return AppendError(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record size {length} is less than the minimum record overhead ({_MIN_RECORD_OVERHEAD})",
            message_for_client=length < _MIN_RECORD_OVERHEAD,
        )
    if header.size > len(view):
        return _not_a_batch(view)
    return AppendError(
        ErrorCode.INVALID_RECORD, "Produce requests must contain exactly one record batch per partition"
    )


def _check_codec(codec: int, produce_version: int) -> None:
    if codec > Compression.ZSTD:
        message = f"Unknown compression type id: {codec}"
        raise AppendError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            message,
            has_log_start_offset=True,
            message_for_client=True,
        )
    if produce_version < FIRST_PRODUCE_VERSION_WITH_ZSTD:
        raise AppendError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {produce_version} are not allowed to use ZStandard compression",
        )


def _too_much(limits: BatchLimits, what: str) -> Exception:
    """MESSAGE_TOO_LARGE, after which Apache Kafka's producer sends the records again in smaller batches."""
    if limits is AT_ONCE:
        return HeavyBatch()
    return AppendError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The batch {what}.",
        has_log_start_offset=True,
        message_for_client=True,
    )


def uncompressed_limit(view: memoryview, limits: BatchLimits) -> int:
    """Bytes that the records of a batch may have uncompressed."""
    return max(limits.uncompressed_bytes, 0 if limits is AT_ONCE else _ALWAYS_ALLOWED_RATIO * len(view))


def _decompressed(view: memoryview, codec: int, limits: BatchLimits) -> Buffer:
    limit = uncompressed_limit(view, limits)
    try:
        return decompress(codec, view[HEADER_SIZE:], limit)
    except KafkaError as error:
        if error.code is ErrorCode.MESSAGE_TOO_LARGE:
            what = f"holds more than {limit} bytes uncompressed (moldau.batch.uncompressed.bytes.max)"
            raise _too_much(limits, what) from None
        # The checksum is right, so the client compressed it like this. Clients retry after CORRUPT_MESSAGE,
        # which would not help here.
        code = ErrorCode.INVALID_RECORD if error.code is ErrorCode.CORRUPT_MESSAGE else error.code
        raise AppendError(code, error.message, has_log_start_offset=True, message_for_client=True) from None


def _bad_counts(header: BatchHeader) -> AppendError:
    if header.is_control:
        message = "Clients are not allowed to write control records"
    elif header.last_offset_delta < 0:
        message = f"Batch has an invalid offset range: [0, {header.last_offset_delta}]"
    elif header.record_count <= 0:
        message = f"Invalid reported count for record batch: {header.record_count}"
    elif header.record_count != header.last_offset_delta + 1:
        message = (
            f"Inconsistent batch offset range [0, {header.last_offset_delta}] "
            f"and count of records {header.record_count}"
        )
    else:
        message = (
            f"Invalid sequence number {header.base_sequence} in record batch "
            f"with producerId {header.producer_id}"
        )
    return _invalid(ErrorCode.INVALID_RECORD, message)


def _with_max_timestamp(view: memoryview, max_timestamp: int) -> BatchHeader:
    if not -(1 << 63) <= max_timestamp < 1 << 63:
        raise _invalid(ErrorCode.INVALID_RECORD, f"a record has the timestamp {max_timestamp}")
    set_max_timestamp(view, 0, max_timestamp)
    return read_header(view)


def _check_timestamps(payload: Buffer, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """Called for suspicious timestamps. -1 is a record without one, which is always accepted."""
    low = now_ms - config.message_timestamp_before_max_ms
    high = now_ms + config.message_timestamp_after_max_ms
    errors = RecordErrors()
    for index, delta in enumerate(timestamp_deltas(payload, header.record_count)):
        timestamp = header.base_timestamp + delta
        if timestamp != -1 and not low <= timestamp <= high:
            errors.add(
                index,
                f"Timestamp {timestamp} of message with offset {index} is out of range. "
                f"The timestamp should be within [{low}, {high}]",
            )
    if errors.total:
        message = "One or more records have been rejected due to invalid timestamp"
        raise _invalid(ErrorCode.INVALID_TIMESTAMP, message + errors.rest, errors.first)


class RecordErrors:
    """What is wrong with the records of a batch: the first few by index, and how many there are."""

    __slots__ = ("first", "total")

    def __init__(self) -> None:
        self.first: list[tuple[int, str]] = []
        self.total = 0

    def add(self, index: int, text: str) -> None:
        self.total += 1
        if len(self.first) < NAMED_RECORDS:
            self.first.append((index, text))

    @property
    def rest(self) -> str:
        """The end of a sentence where some are not named."""
        unnamed = self.total - len(self.first)
        return f" ({unnamed} more of them are not named)" if unnamed else ""


def _missing_keys(payload: Buffer, count: int, topic_partition: TopicPartition) -> AppendError:
    text = f"Compacted topic cannot accept message without key in topic partition {topic_partition}"
    errors = RecordErrors()
    for index in keyless_records(payload, count):
        errors.add(index, text)
    return rejected_records(errors)


def rejected_records(errors: RecordErrors) -> AppendError:
    """For a batch with records that the topic does not accept: the first few of them, and why."""
    first_three = ", ".join(
        f"RecordError(batchIndex={index}, message='{text}')" for index, text in errors.first[:3]
    )
    return _invalid(
        ErrorCode.INVALID_RECORD,
        f"One or more records have been rejected due to {errors.total} record errors in total, "
        f"and only showing the first three errors at most: [{first_three}]",
        errors.first,
    )


def check_batches_with_offsets(records: memoryview, next_offset: int) -> list[tuple[int, BatchHeader]]:
    """Position and header of batches that have their offsets already; AppendError if one does not fit."""
    found: list[tuple[int, BatchHeader]] = []
    for position, header in batches(records):
        if not crc_matches(records, position, header.size):
            raise AppendError(ErrorCode.CORRUPT_MESSAGE, f"bad checksum at offset {header.base_offset}")
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise AppendError(
                ErrorCode.INVALID_RECORD,
                f"offsets {header.base_offset} to {header.last_offset} where {next_offset} is the next one",
            )
        found.append((position, header))
        next_offset = header.last_offset + 1
    return found
