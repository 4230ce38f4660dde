"""Batches of a log as a producer sends them, with their records untouched."""

from moldau.client.consumer.fetched import AbortFilter
from moldau.mirror.rebatching import SourceBatch, Stretch, source_batches
from moldau.protocol.compression import Compression
from moldau.protocol.control_records import ControlType, Marker, encode_marker
from moldau.protocol.messages.fetch import AbortedTransaction
from moldau.protocol.records import (
    Record,
    TimestampType,
    assign,
    crc_matches,
    decode_records,
    encode_batch,
    read_header,
)

LIMIT = 1 << 20


def records(first: int, *values: bytes) -> list[Record]:
    return [
        Record(first + at, 1000 + at, b"k%d" % at, value, (("h", None),)) for at, value in enumerate(values)
    ]


def sent(batch: SourceBatch) -> list[Record]:
    """What a broker would read of it."""
    assert batch.encoded is not None
    data = batch.encoded.stamped(7, 3, 40, transactional=True)
    header = read_header(data)
    assert crc_matches(data, 0, header.size)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 40)
    assert header.is_transactional
    assert header.last_offset_delta + 1 == header.record_count
    return decode_records(data, 0, header, limit=LIMIT)


def batches_of(data: bytes | bytearray, start: int = 0, **options: object) -> list[SourceBatch]:
    aborted = options.pop("aborted", [])
    return list(source_batches(2, memoryview(bytes(data)), start, AbortFilter(aborted), **options))  # type: ignore[arg-type]


def test_a_batch_keeps_its_bytes() -> None:
    for codec in (Compression.NONE, Compression.ZSTD, Compression.GZIP):
        data = encode_batch(records(50, b"a", b"b", b"c"), base_offset=50, compression=codec, producer_id=9)
        (batch,) = batches_of(data)
        assert batch.encoded is not None
        assert batch.encoded.partition == 2
        assert bytes(batch.encoded.content[61:]) == bytes(data[61:]), "nothing behind the header is touched"
        assert batch.stretches == (Stretch(50, 0, 3),)
        assert batch.next_offset == 53
        assert [r[1:] for r in sent(batch)] == [r[1:] for r in records(0, b"a", b"b", b"c")]


def test_compacted_batches_become_dense() -> None:
    kept = [r for r in records(50, b"a", b"b", b"c", b"d", b"e") if r.offset not in (52, 54)]
    data = encode_batch(kept, base_offset=50, last_offset_delta=4)
    (batch,) = batches_of(data)
    assert batch.stretches == (Stretch(50, 0, 2), Stretch(53, 2, 1))
    assert batch.next_offset == 55
    assert [(r.offset, r.value, r.timestamp) for r in sent(batch)] == [
        (0, b"a", 1000),
        (1, b"b", 1001),
        (2, b"d", 1003),
    ]


def test_append_times_become_create_times() -> None:
    data = encode_batch(
        records(0, b"a", b"b"), timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=7777
    )
    (batch,) = batches_of(data)
    assert [r.timestamp for r in sent(batch)] == [7777, 7777]
    assert batch.encoded is not None
    assert read_header(batch.encoded.content).timestamp_type is TimestampType.CREATE_TIME


def test_from_the_middle_of_a_batch() -> None:
    (batch,) = batches_of(encode_batch(records(10, b"a", b"b", b"c"), base_offset=10), 11)
    assert [r.value for r in sent(batch)] == [b"b", b"c"]
    assert batch.stretches == (Stretch(11, 0, 2),)


def test_markers_and_aborted_records_only_move_the_position() -> None:
    data = encode_batch(records(0, b"a"), producer_id=5, producer_epoch=0, transactional=True)
    marker = encode_marker(Marker(ControlType.ABORT, 0), producer_id=5, producer_epoch=0, timestamp_ms=1)
    assign(marker, 0, 1, 0)
    after = encode_batch(records(2, b"b"), base_offset=2, producer_id=5, producer_epoch=0, transactional=True)
    found = batches_of(data + marker + after, aborted=[AbortedTransaction(5, 0)])
    assert [batch.encoded is None for batch in found] == [True, True, False]
    assert [batch.next_offset for batch in found] == [1, 2, 3]


def test_a_function_filters_changes_and_adds() -> None:
    def function(record: Record) -> list[Record]:
        if record.value == b"b":
            return []
        if record.value == b"c":
            return [record, record._replace(value=b"c2")]
        return [record._replace(value=record.value.upper() if record.value else None)]

    (batch,) = batches_of(
        encode_batch(records(10, b"a", b"b", b"c", b"d"), base_offset=10), function=function
    )
    assert [r.value for r in sent(batch)] == [b"A", b"c", b"c2", b"D"]
    assert batch.stretches == (Stretch(10, 0, 1), Stretch(12, 1, 1), Stretch(13, 3, 1))


def test_nothing_left_of_a_batch() -> None:
    (batch,) = batches_of(encode_batch(records(0, b"a")), function=lambda record: [])
    assert batch == SourceBatch(None, (), 1)
    (empty,) = batches_of(encode_batch([], base_offset=5, last_offset_delta=9), 5)
    assert empty == SourceBatch(None, (), 15)
