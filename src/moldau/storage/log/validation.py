"""Validation of a produced batch: what is rejected, and with which error code.

Checks run in the order of Apache Kafka's broker, so that a batch with two faults gets the same error.
Records are decoded only where the topic requires it (keys on compacted topics, another compression), and to
name the rejected records. Pure.
"""

from collections.abc import Iterable

from moldau.base.names import TopicPartition
from moldau.protocol.checksum import crc32c
from moldau.protocol.compression import Compression, decompress
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    MIN_BATCH_LENGTH,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    Record,
    batches,
    crc_matches,
    decode_records,
    has_null_key,
    read_header,
    recompress,
    records_error,
    set_append_time,
    set_create_time,
)
from moldau.storage.log.config import LogConfig

#: The first Produce version in which a client may use zstd.
FIRST_PRODUCE_VERSION_WITH_ZSTD = 7

#: Uncompressed bytes that a batch may have in any case; beyond the limit it is taken for a zip bomb.
_DECOMPRESSED_LIMIT = 64 * 1024 * 1024

#: As a plain number: comparing with a member of an enum costs more than reading the whole header.
_ZSTD = int(Compression.ZSTD)

#: Kafka's minimum for the length field of a batch of any format.
_MIN_RECORD_OVERHEAD = 14


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
    internal: bool,
) -> BatchHeader:
    """The header of the one batch in ``view``, or AppendError."""
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
    if base_offset != 0 and not internal:
        raise _bad_base_offset(base_offset, topic_partition)
    if size > config.max_message_bytes or size > config.segment_bytes:
        raise too_large(size, config, topic_partition)
    if crc32c(view[ATTRIBUTES_AT:]) != crc:
        raise _bad_checksum(crc, topic_partition)
    if last_offset_delta != count - 1 or count <= 0 or attributes & CONTROL_MASK:
        _check_counts(header, internal=internal)
    if producer_id >= 0 and base_sequence < 0:
        _check_counts(header, internal=internal)
    payload = _decompressed(view, codec, config) if codec else view[HEADER_SIZE:]
    error = records_error(payload, count)
    if error is not None:
        raise _invalid(ErrorCode.INVALID_RECORD, error)
    latest = now_ms + config.message_timestamp_after_max_ms
    if (
        max_timestamp > latest
        or base_timestamp > latest
        or now_ms - base_timestamp > config.message_timestamp_before_max_ms
    ) and not config.log_append_time:
        _check_timestamps(view, header, config, now_ms)
    if config.compact and not attributes & CONTROL_MASK and has_null_key(payload, count) is not None:
        raise _missing_keys(_decode(view, header, config), topic_partition)
    return header


def transform(
    view: memoryview, header: BatchHeader, config: LogConfig, topic_partition: TopicPartition, now_ms: int
) -> tuple[memoryview, BatchHeader]:
    """The batch as the topic requires it: with LogAppendTime, or with another compression."""
    codec = config.compression
    if codec is not None and codec != header.attributes & COMPRESSION_MASK:
        level = config.compression_level(codec)
        batch = recompress(view, 0, header, codec, level, decompressed_limit(config))
        if len(batch) > config.max_message_bytes:
            raise too_large(len(batch), config, topic_partition)
        view = memoryview(batch)
    if config.log_append_time:
        set_append_time(view, 0, now_ms)
    elif header.attributes & TIMESTAMP_TYPE_MASK:
        # The topic decides on the timestamp type, not the client.
        set_create_time(view, 0)
    return view, read_header(view)


def decompressed_limit(config: LogConfig) -> int:
    return max(_DECOMPRESSED_LIMIT, 16 * config.max_message_bytes)


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


def _decompressed(view: memoryview, codec: int, config: LogConfig) -> bytes:
    try:
        return decompress(codec, view[HEADER_SIZE:], decompressed_limit(config))
    except KafkaError as error:
        # The checksum is right, so the client compressed it like this. Clients retry after CORRUPT_MESSAGE,
        # which would not help here.
        code = ErrorCode.INVALID_RECORD if error.code is ErrorCode.CORRUPT_MESSAGE else error.code
        raise AppendError(code, error.message, has_log_start_offset=True, message_for_client=True) from None


def _check_counts(header: BatchHeader, *, internal: bool) -> None:
    if header.is_control and not internal:
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
    elif not internal:
        message = (
            f"Invalid sequence number {header.base_sequence} in record batch "
            f"with producerId {header.producer_id}"
        )
    else:
        return
    raise _invalid(ErrorCode.INVALID_RECORD, message)


def _check_timestamps(view: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """Called for a suspicious header. -1 is a record without a timestamp, which is always accepted."""
    low = now_ms - config.message_timestamp_before_max_ms
    high = now_ms + config.message_timestamp_after_max_ms

    def is_bad(timestamp: int) -> bool:
        return timestamp != -1 and not low <= timestamp <= high

    if not is_bad(header.base_timestamp) and not is_bad(header.max_timestamp):
        return
    out_of_range_timestamps = [
        (index, record.timestamp)
        for index, record in enumerate(_decode(view, header, config))
        if is_bad(record.timestamp)
    ]
    raise _invalid(
        ErrorCode.INVALID_TIMESTAMP,
        "One or more records have been rejected due to invalid timestamp",
        [
            (
                index,
                f"Timestamp {timestamp} of message with offset {index} is out of range. "
                f"The timestamp should be within [{low}, {high}]",
            )
            for index, timestamp in out_of_range_timestamps or [(0, header.max_timestamp)]
        ],
    )


def _decode(view: memoryview, header: BatchHeader, config: LogConfig) -> list[Record]:
    return decode_records(view, 0, header, limit=decompressed_limit(config))


def _missing_keys(records: list[Record], topic_partition: TopicPartition) -> AppendError:
    text = f"Compacted topic cannot accept message without key in topic partition {topic_partition}"
    return rejected_records([(index, text) for index, record in enumerate(records) if record.key is None])


def rejected_records(errors: list[tuple[int, str]]) -> AppendError:
    """For a batch with records that the topic does not accept: the index of each, and why."""
    first_three = ", ".join(
        f"RecordError(batchIndex={index}, message='{text}')" for index, text in errors[:3]
    )
    return _invalid(
        ErrorCode.INVALID_RECORD,
        f"One or more records have been rejected due to {len(errors)} record errors in total, "
        f"and only showing the first three errors at most: [{first_three}]",
        errors,
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
