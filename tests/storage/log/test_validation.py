"""What produce refuses, and with which code: the cases that were asked of a real broker, and some more."""

import gzip
import random
import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import pytest
from crc32c import crc32c

from moldau.base.names import TopicPartition
from moldau.protocol.compression import Compression, compress
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import BatchHeader, Record, decode_records, encode_batch, read_header
from moldau.storage.log.config import LogConfig
from moldau.storage.log.validation import (
    AT_ONCE,
    NAMED_RECORDS,
    AppendError,
    BatchLimits,
    HeavyBatch,
    check_and_transform,
    check_batch,
    check_batches_with_offsets,
    null_records,
    own_header,
    transform,
)

NOW = 1_794_779_065_790
TP = TopicPartition("cmp", 0)
CONFIG = LogConfig()
#: As the settings have them by default.
LIMITS = BatchLimits(1_000_000, 4_000_000, 64 * 1024 * 1024)
MakeBatch = Callable[..., memoryview]


def check(view: memoryview, config: LogConfig = CONFIG, version: int = 9, now_ms: int = NOW) -> BatchHeader:
    return check_batch(view, config, TP, now_ms, version)


def refused(
    view: memoryview, config: LogConfig = CONFIG, version: int = 9, limits: BatchLimits = AT_ONCE
) -> AppendError:
    """The error; one that is not about the batch as such comes as the log would pass it on."""
    with pytest.raises(KafkaError) as caught:
        check_batch(view, config, TP, NOW, version, limits)
    error = caught.value
    return (
        error
        if isinstance(error, AppendError)
        else AppendError(error.code, error.message, has_log_start_offset=True)
    )


def batch(count: int = 1, timestamp: int = NOW, key: bytes | None = b"k", **options: object) -> bytearray:
    records = [Record(i, timestamp, key, b"value", ()) for i in range(count)]
    return encode_batch(records, **options)  # type: ignore[arg-type]


def patched(batch: bytearray, position: int, format: str, value: int, *, crc: bool = True) -> memoryview:
    struct.pack_into(format, batch, position, value)
    if crc:
        struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return memoryview(batch)


def test_a_good_batch() -> None:
    header = check(memoryview(batch(3)))
    assert header.record_count == 3


@pytest.mark.parametrize(
    ("view", "code", "has_log_start_offset"),
    [
        pytest.param(
            patched(batch(), 70, ">b", 1, crc=False), ErrorCode.CORRUPT_MESSAGE, False, id="bad CRC"
        ),
        pytest.param(patched(batch(), 16, ">b", 1), ErrorCode.INVALID_RECORD, False, id="magic 1"),
        pytest.param(patched(batch(), 16, ">b", 0), ErrorCode.INVALID_RECORD, False, id="magic 0"),
        pytest.param(patched(batch(), 16, ">b", 3), ErrorCode.CORRUPT_MESSAGE, False, id="magic 3"),
        pytest.param(patched(batch(), 16, ">b", -1), ErrorCode.CORRUPT_MESSAGE, False, id="magic 255"),
        pytest.param(memoryview(batch() + batch()), ErrorCode.INVALID_RECORD, False, id="two batches"),
        pytest.param(memoryview(b""), ErrorCode.INVALID_RECORD, False, id="empty"),
        pytest.param(memoryview(bytes(16)), ErrorCode.INVALID_RECORD, False, id="sixteen bytes"),
        pytest.param(memoryview(batch()[:-5]), ErrorCode.INVALID_RECORD, False, id="truncated"),
        pytest.param(memoryview(batch()[:40]), ErrorCode.INVALID_RECORD, False, id="truncated header"),
        pytest.param(
            memoryview(batch()[:16] + b"\x03" + bytes(20)),
            ErrorCode.CORRUPT_MESSAGE,
            False,
            id="short magic 3",
        ),
        pytest.param(patched(batch(), 8, ">i", 3), ErrorCode.CORRUPT_MESSAGE, False, id="tiny length"),
        pytest.param(patched(batch(), 8, ">i", -1), ErrorCode.CORRUPT_MESSAGE, False, id="negative length"),
        pytest.param(patched(batch(), 8, ">i", 1 << 30), ErrorCode.INVALID_RECORD, False, id="huge length"),
        pytest.param(memoryview(encode_batch([])), ErrorCode.INVALID_RECORD, True, id="zero records"),
        pytest.param(patched(batch(), 57, ">i", 3), ErrorCode.INVALID_RECORD, True, id="count too large"),
        pytest.param(patched(batch(), 57, ">i", -3), ErrorCode.INVALID_RECORD, True, id="negative count"),
        pytest.param(patched(batch(), 23, ">i", 5), ErrorCode.INVALID_RECORD, True, id="last offset delta"),
        pytest.param(patched(batch(), 23, ">i", -7), ErrorCode.INVALID_RECORD, True, id="negative delta"),
        pytest.param(patched(batch(), 0, ">q", 500), ErrorCode.INVALID_RECORD, True, id="base offset"),
        pytest.param(patched(batch(), 21, ">h", 0x20), ErrorCode.INVALID_RECORD, True, id="control batch"),
        pytest.param(
            memoryview(batch(producer_id=5, producer_epoch=0, base_sequence=-1)),
            ErrorCode.INVALID_RECORD,
            True,
            id="negative sequence",
        ),
        pytest.param(
            patched(batch(), 21, ">h", 7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, True, id="codec 7"
        ),
        pytest.param(patched(batch(), 21, ">h", 1), ErrorCode.INVALID_RECORD, True, id="garbage gzip"),
        pytest.param(patched(batch(), 21, ">h", 2), ErrorCode.INVALID_RECORD, True, id="garbage snappy"),
        pytest.param(patched(batch(), 21, ">h", 3), ErrorCode.INVALID_RECORD, True, id="garbage lz4"),
        pytest.param(patched(batch(), 21, ">h", 4), ErrorCode.INVALID_RECORD, True, id="garbage zstd"),
        pytest.param(patched(batch(), 61, ">b", 4), ErrorCode.INVALID_RECORD, True, id="record length"),
        pytest.param(
            patched(batch(), 61, ">b", 3), ErrorCode.INVALID_RECORD, True, id="negative record length"
        ),
    ],
)
def test_refused(view: memoryview, code: ErrorCode, has_log_start_offset: bool) -> None:
    error = refused(view)
    assert error.code == code
    assert error.has_log_start_offset == has_log_start_offset
    assert error.record_errors == []
    assert error.message


def test_kafkas_words_for_a_bad_magic() -> None:
    assert refused(patched(batch(), 16, ">b", 3)).message == "Invalid magic found in record: 3"


def test_null_records() -> None:
    assert null_records().code == ErrorCode.INVALID_RECORD


def test_two_records_where_three_are_counted() -> None:
    two = batch(2)
    struct.pack_into(">i", two, 23, 2)
    assert refused(patched(two, 57, ">i", 3)).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_compressed_records_are_counted_too(codec: int) -> None:
    view = memoryview(batch(2, compression=Compression(codec)))
    assert check(view).record_count == 2
    inconsistent = batch(2, compression=Compression(codec))
    struct.pack_into(">i", inconsistent, 23, 2)
    assert refused(patched(inconsistent, 57, ">i", 3)).code == ErrorCode.INVALID_RECORD


def test_size_is_that_of_the_whole_batch() -> None:
    view = memoryview(batch())
    check(view, replace(CONFIG, max_message_bytes=len(view)))
    error = refused(view, replace(CONFIG, max_message_bytes=len(view) - 1))
    assert error.code == ErrorCode.MESSAGE_TOO_LARGE
    assert not error.has_log_start_offset


def test_a_batch_must_fit_into_a_segment() -> None:
    view = memoryview(batch())
    error = refused(view, replace(CONFIG, segment_bytes=len(view) - 1))
    assert error.code == ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.slow
def test_a_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(80 << 20), 9)
    data = bytearray(batch()[:61] + bomb)
    struct.pack_into(">i", data, 8, len(data) - 12)
    view = patched(data, 21, ">h", 1)
    with pytest.raises(HeavyBatch):
        check(view)
    error = refused(view, limits=LIMITS)
    assert error.code == ErrorCode.MESSAGE_TOO_LARGE
    assert error.message == (
        "The batch holds more than 67108864 bytes uncompressed (moldau.batch.uncompressed.bytes.max)."
    )
    assert error.message_for_client


def test_many_records_are_not_checked_on_the_loop() -> None:
    view = memoryview(batch(AT_ONCE.records + 1, key=None))
    with pytest.raises(HeavyBatch):
        check(view)
    assert check_batch(view, CONFIG, TP, NOW, 9, LIMITS).record_count == AT_ONCE.records + 1
    error = refused(view, limits=BatchLimits(AT_ONCE.records, 0, 0))
    assert error.code == ErrorCode.MESSAGE_TOO_LARGE
    assert error.message == ("The batch counts 10001 records, more than 10000 (moldau.batch.records.max).")


def test_many_headers_are_not_checked_on_the_loop() -> None:
    headers = (("", None),) * (AT_ONCE.headers + 1)
    view = memoryview(encode_batch([Record(0, NOW, None, None, headers)]))
    with pytest.raises(HeavyBatch):
        check(view)
    assert check_batch(view, CONFIG, TP, NOW, 9, LIMITS).record_count == 1
    assert refused(view, limits=BatchLimits(10, 10, 10)).code == ErrorCode.MESSAGE_TOO_LARGE


def test_what_a_batch_may_hold_grows_with_its_size() -> None:
    value = random.Random(3).randbytes(50_000)
    view = memoryview(encode_batch([Record(0, NOW, None, value * 2, ())], compression=Compression.ZSTD))
    assert 50_000 < len(view) < 60_000
    assert check_batch(view, CONFIG, TP, NOW, 9, BatchLimits(10, 10, 10)).record_count == 1


def test_a_large_batch_is_not_compressed_on_the_loop() -> None:
    config = replace(CONFIG, compression=Compression.GZIP)
    for codec in (Compression.NONE, Compression.ZSTD):
        view = memoryview(encode_batch([Record(0, NOW, None, bytes(70_000), ())], compression=codec))
        with pytest.raises(HeavyBatch):
            transform(view, check(view), config, TP, NOW)
        changed, header = check_and_transform(view, config, TP, NOW, 9, LIMITS)
        assert header.attributes == Compression.GZIP
        assert check(changed) == header


@pytest.mark.slow
def test_memory_for_a_batch_that_is_refused() -> None:
    """Ten thousand bad timestamps in a few kilobytes, as a scaled-down bomb: what is kept of the records does
    not follow their number.
    """
    records = [Record(index, NOW + 61_000, None, b"", ()) for index in range(10_000)]
    view = memoryview(encode_batch(records, compression=Compression.ZSTD))
    plain = 10_000 * 9
    tracemalloc.start()
    try:
        error = refused(view, MINUTE)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(error.record_errors) == NAMED_RECORDS
    assert peak < 8 * len(view) + 4 * plain


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("count", [1, 3, 50])
@pytest.mark.parametrize(
    ("at", "byte"),
    [
        pytest.param(3, 9 * 2, id="offset delta"),
        pytest.param(4, 6, id="length of the key"),
        pytest.param(6, 8, id="length of the value"),
        pytest.param(-1, 2, id="number of headers"),
        pytest.param(-1, 1, id="negative number of headers"),
    ],
)
def test_a_record_that_would_stop_consumers(at: int, byte: int, count: int, codec: Compression) -> None:
    """The last record of a batch with the right checksum."""
    plain = batch(count)
    size = (len(plain) - 61) // count
    payload = bytearray(plain[61:])
    payload[len(payload) - size + at if at >= 0 else at] = byte
    data = plain[:61] + compress(codec, payload)
    struct.pack_into(">i", data, 8, len(data) - 12)
    error = refused(patched(data, 21, ">h", codec))
    assert error.code == ErrorCode.INVALID_RECORD
    assert error.message is not None
    assert f"record {count - 1}" in error.message


def test_zstd_needs_a_produce_version_that_knows_it() -> None:
    view = memoryview(batch(compression=Compression.ZSTD))
    check(view, version=7)
    error = refused(view, version=6)
    assert error.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert not error.has_log_start_offset


COMPACTED = replace(CONFIG, compact=True)
NO_KEY = "Compacted topic cannot accept message without key in topic partition cmp-0"


def test_compacted_topics_need_keys() -> None:
    check(memoryview(batch(key=b"")), COMPACTED)
    error = refused(memoryview(batch(key=None)), COMPACTED)
    assert error.code == ErrorCode.INVALID_RECORD
    assert error.record_errors == [(0, NO_KEY)]
    assert error.message == (
        "One or more records have been rejected due to 1 record errors in total, and only showing the first "
        f"three errors at most: [RecordError(batchIndex=0, message='{NO_KEY}')]"
    )


@pytest.mark.parametrize("codec", list(Compression))
def test_the_second_of_three_has_no_key(codec: Compression) -> None:
    records = [Record(0, NOW, b"a", b"", ()), Record(1, NOW, None, b"", ()), Record(2, NOW, b"c", b"", ())]
    error = refused(memoryview(encode_batch(records, compression=codec)), COMPACTED)
    assert error.record_errors == [(1, NO_KEY)]
    assert error.has_log_start_offset


def test_of_many_without_keys_a_few_are_named() -> None:
    error = refused(memoryview(batch(5, key=None)), COMPACTED)
    assert [index for index, _ in error.record_errors] == [0, 1, 2, 3, 4]
    error = refused(memoryview(batch(500, key=None)), COMPACTED)
    assert [index for index, _ in error.record_errors] == list(range(NAMED_RECORDS))
    assert error.message is not None
    assert "due to 500 record errors" in error.message
    assert error.message.count("RecordError(") == 3


MINUTE = replace(CONFIG, message_timestamp_before_max_ms=60_000, message_timestamp_after_max_ms=60_000)


@pytest.mark.parametrize("timestamp", [NOW - 600_000, NOW + 600_000])
def test_timestamps_out_of_range(timestamp: int) -> None:
    error = refused(memoryview(batch(timestamp=timestamp)), MINUTE)
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert error.has_log_start_offset
    assert error.message == "One or more records have been rejected due to invalid timestamp"
    assert error.record_errors == [
        (
            0,
            f"Timestamp {timestamp} of message with offset 0 is out of range. "
            f"The timestamp should be within [{NOW - 60_000}, {NOW + 60_000}]",
        )
    ]


def test_of_many_bad_timestamps_a_few_are_named() -> None:
    error = refused(memoryview(batch(500, timestamp=NOW + 61_000)), MINUTE)
    assert [index for index, _ in error.record_errors] == list(range(NAMED_RECORDS))
    assert error.message == (
        "One or more records have been rejected due to invalid timestamp (490 more of them are not named)"
    )


def test_the_default_bounds() -> None:
    check(memoryview(batch(timestamp=0)))
    check(memoryview(batch(timestamp=NOW + 3_600_000)))
    error = refused(memoryview(batch(timestamp=NOW + 7_200_000)))
    assert f"[{NOW - (1 << 63) + 1}, {NOW + 3_600_000}]" in error.record_errors[0][1]


def test_no_timestamp_is_fine() -> None:
    check(memoryview(batch(timestamp=-1)), MINUTE)


def test_only_the_culprits_are_named() -> None:
    records = [
        Record(0, NOW, b"", b"", ()),
        Record(1, NOW + 61_000, b"", b"", ()),
        Record(2, NOW, b"", b"", ()),
    ]
    error = refused(memoryview(encode_batch(records)), MINUTE)
    assert [index for index, _ in error.record_errors] == [1]


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("claimed", [NOW + 1000, NOW + 61_000, NOW - 5, -1])
def test_a_wrong_largest_timestamp_is_put_right(claimed: int, codec: Compression) -> None:
    view = patched(batch(40, compression=codec), 35, ">q", claimed)
    assert check(view, MINUTE).max_timestamp == NOW
    assert check(view, MINUTE) == read_header(view)


def test_a_timestamp_that_the_header_does_not_show() -> None:
    records = [Record(0, NOW, b"", b"", ()), Record(1, NOW + 61_000, b"", b"", ())]
    error = refused(memoryview(encode_batch(records, max_timestamp=NOW)), MINUTE)
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [1]


def test_bounds_mean_nothing_with_the_brokers_time() -> None:
    check(memoryview(batch(timestamp=5)), replace(MINUTE, log_append_time=True))


def test_the_platform_may_write_what_clients_may_not() -> None:
    control = encode_batch([Record(0, NOW, b"\0\0\0\1", b"\0\0\0\0\0\0", ())], control=True, producer_id=7)
    assert own_header(memoryview(control), CONFIG, TP).is_control
    many = memoryview(batch(AT_ONCE.records + 1, key=None))
    assert own_header(many, CONFIG, TP).record_count == AT_ONCE.records + 1
    for config, code in (
        (LogConfig(max_message_bytes=1000), ErrorCode.MESSAGE_TOO_LARGE),
        (LogConfig(segment_bytes=1000), ErrorCode.RECORD_LIST_TOO_LARGE),
    ):
        with pytest.raises(AppendError) as caught:
            own_header(many, config, TP)
        assert caught.value.code == code


# -- transforming


def test_log_append_time() -> None:
    view = memoryview(batch(2, timestamp=5))
    config = replace(CONFIG, log_append_time=True)
    changed, header = transform(view, check(view, config), config, TP, NOW)
    assert changed is view
    assert (header.attributes, header.base_timestamp, header.max_timestamp) == (8, 5, NOW)
    check(changed)


def test_a_client_does_not_choose_whose_time_it_is() -> None:
    view = patched(batch(timestamp=5), 21, ">h", 8)
    _, header = transform(view, check(view), CONFIG, TP, NOW)
    assert (header.attributes, header.max_timestamp) == (0, 5)
    check(view)


@pytest.mark.parametrize("target", list(Compression))
@pytest.mark.parametrize("source", list(Compression))
def test_recompression(source: Compression, target: Compression) -> None:
    view = memoryview(batch(3, compression=source, producer_id=4, producer_epoch=1, base_sequence=9))
    config = replace(CONFIG, compression=target)
    before = decode_records(view, 0, read_header(view), limit=10000)
    changed, header = transform(view, check(view), config, TP, NOW)
    assert header.attributes == target
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 1, 9)
    assert (header.base_timestamp, header.max_timestamp, header.record_count) == (NOW, NOW, 3)
    assert decode_records(changed, 0, header, limit=10000) == before
    assert check(changed) == header
    assert (changed is view) == (source == target)


def test_recompressed_it_may_be_too_large() -> None:
    records = [Record(0, NOW, b"k", b"v" * 5000, ())]
    view = memoryview(encode_batch(records, compression=Compression.GZIP))
    config = replace(CONFIG, compression=Compression.NONE, max_message_bytes=1000)
    with pytest.raises(AppendError) as caught:
        transform(view, check(view, config), config, TP, NOW)
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_levels() -> None:
    config = LogConfig(compression_gzip_level=-1, compression_lz4_level=4, compression_zstd_level=11)
    assert [config.compression_level(codec) for codec in Compression] == [None, None, None, 4, 11]
    assert replace(config, compression_gzip_level=9).compression_level(Compression.GZIP) == 9


# -- batches with offsets


def test_assigned_batches() -> None:
    first, second = batch(2, base_offset=0), batch(3, base_offset=0)
    struct.pack_into(">q", first, 0, 10)
    struct.pack_into(">q", second, 0, 20)
    both = memoryview(first + second)
    assert [header.base_offset for _, header in check_batches_with_offsets(both, 5)] == [10, 20]
    assert [header.base_offset for _, header in check_batches_with_offsets(both[:-1], 5)] == [10]
    with pytest.raises(AppendError):
        check_batches_with_offsets(both, 11)
    with pytest.raises(AppendError):
        check_batches_with_offsets(memoryview(second + first), 0)
    first[65] ^= 1
    with pytest.raises(AppendError) as caught:
        check_batches_with_offsets(memoryview(first), 0)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


# -- configs


def test_config_from_values() -> None:
    config = LogConfig.from_values(
        {
            "segment.bytes": 1000,
            "cleanup.policy": "compact",
            "compression.type": "zstd",
            "message.timestamp.type": "LogAppendTime",
            "message.timestamp.after.max.ms": 7,
            "min.insync.replicas": 1,
            "preallocate": False,
        }
    )
    assert config == LogConfig(
        segment_bytes=1000,
        compact=True,
        delete=False,
        compression=Compression.ZSTD,
        log_append_time=True,
        message_timestamp_after_max_ms=7,
    )
    assert LogConfig.from_values({}) == LogConfig()
    both = LogConfig.from_values({"cleanup.policy": ["compact", "delete"], "compression.type": "producer"})
    assert both.compact
    assert both.delete
    assert both.compression is None
    plain = LogConfig.from_values({"compression.type": "uncompressed", "cleanup.policy": "compact, delete"})
    assert plain.compression is Compression.NONE
    assert plain.delete
