"""Batches: the bytes of real clients, both ways; and damage that never raises anything but KafkaError."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.protocol.compression import Compression
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import (
    ATTRIBUTES_AT,
    BATCH_LENGTH_AT,
    HEADER_SIZE,
    MAGIC_AT,
    BatchBuilder,
    BatchHeader,
    Record,
    TimestampType,
    add_to_sequence,
    assign,
    batches,
    crc_matches,
    decode_records,
    encode_batch,
    has_null_key,
    payload_of,
    read_header,
    recompress,
    records_error,
    set_append_time,
    set_create_time,
    truncate_batch,
    update_crc,
)

GOLDEN = Path(__file__).parent.parent / "data" / "golden_bytes"
LIMIT = 1 << 20
NOW_MS = 1_767_225_600_000


def golden_batches() -> list[tuple[str, bytes, dict[str, Any]]]:
    """Name, bytes and content of every batch of the golden files; librdkafka's have records only."""
    found = []
    for path in sorted(GOLDEN.glob("*.json")):
        content = json.loads(path.read_text())
        for index, batch in enumerate(content.get("batches", ())):
            found.append((f"{path.stem}-{index}", bytes.fromhex(batch["hex"]), batch["decoded"]))
        for codec, by_codec in content.get("by_codec", {}).items():
            found += ((f"librdkafka-{codec}", bytes.fromhex(batch["hex"]), batch) for batch in by_codec)
    return found


ALL = golden_batches()
every_golden = pytest.mark.parametrize(
    ("data", "content"), [case[1:] for case in ALL], ids=[case[0] for case in ALL]
)


def golden(name: str) -> bytearray:
    return next(bytearray(data) for each, data, _ in ALL if each == name)


def as_bytes(text: str | None) -> bytes | None:
    if text is None:
        return None
    return bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()


def recorded(content: dict[str, Any]) -> list[Record]:
    return [
        Record(
            offset=record["offset"],
            timestamp=record["timestamp"],
            key=as_bytes(record["key"]),
            value=as_bytes(record["value"]),
            headers=tuple((name, as_bytes(value)) for name, value in record["headers"]),
        )
        for record in content["records"]
    ]


# What real clients wrote ------------------------------------------------------------------------------------


def test_the_golden_files_are_there() -> None:
    assert len(ALL) == 21


@every_golden
def test_golden_content(data: bytes, content: dict[str, Any]) -> None:
    header = read_header(data)
    assert header.size == len(data)
    assert crc_matches(data, 0, len(data))
    assert decode_records(data, 0, header, limit=LIMIT) == recorded(content)
    assert header.compression.label == content["compression"]
    assert header.record_count == len(content["records"])
    assert records_error(payload_of(data, 0, header, LIMIT), header.record_count) is None


@every_golden
def test_golden_headers(data: bytes, content: dict[str, Any]) -> None:
    if "baseOffset" not in content:  # librdkafka's are recorded without it
        return
    header = read_header(data)
    assert header == (
        content["baseOffset"],
        content["batchLength"],
        content["partitionLeaderEpoch"],
        content["magic"],
        int(content["crc"], 16),
        content["attributes"],
        content["lastOffsetDelta"],
        content["baseTimestamp"],
        content["maxTimestamp"],
        content["producerId"],
        content["producerEpoch"],
        content["baseSequence"],
        content["recordsCount"],
    )
    assert header.is_transactional == content["isTransactional"]
    assert header.is_control == content["isControl"]
    assert header.has_delete_horizon == content["hasDeleteHorizon"]
    log_append_time = content["timestampType"] == "LogAppendTime"
    assert header.timestamp_type == (
        TimestampType.LOG_APPEND_TIME if log_append_time else TimestampType.CREATE_TIME
    )


@every_golden
def test_encoding_gives_the_same_bytes(data: bytes, content: dict[str, Any]) -> None:
    header = read_header(data)
    records = recorded(content)
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:  # the records keep what the producer gave them
        deltas = [record["timestampDelta"] for record in content["records"]]
        records = [
            record._replace(timestamp=header.base_timestamp + delta)
            for record, delta in zip(records, deltas, strict=True)
        ]
    encoded = encode_batch(
        records,
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        timestamp_type=header.timestamp_type,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
    )
    if header.compression is Compression.NONE:
        assert encoded == data
    else:
        assert payload_of(data, 0, header, LIMIT) == encoded[HEADER_SIZE:]


@pytest.mark.parametrize(
    "name", ["uncompressed-0", "snappy-0", "lz4-0", "idempotent-1", "headers-0", "nulls-0"]
)
def test_the_builder_writes_what_the_java_producer_writes(name: str) -> None:
    data = golden(name)
    header = read_header(data)
    builder = BatchBuilder()
    for record in decode_records(data, 0, header, limit=LIMIT):
        builder.append(record.key, record.value, record.headers, record.timestamp)
    batch = builder.build(
        compression=header.compression,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )
    assert read_header(batch).partition_leader_epoch == -1
    assign(batch, 0, header.base_offset, 0)
    assert batch == data


# Headers and patches ----------------------------------------------------------------------------------------


def header_of(**fields: int) -> BatchHeader:
    return read_header(golden("uncompressed-0"))._replace(**fields)


def test_offsets_and_sizes() -> None:
    header = header_of(base_offset=100, last_offset_delta=7, batch_length=181)
    assert header.last_offset == 107
    assert header.size == 193


@pytest.mark.parametrize(
    ("base", "delta", "last", "following"),
    [
        (0, 0, 0, 1),
        (5, 2, 7, 8),
        (2**31 - 1, 0, 2**31 - 1, 0),
        (2**31 - 1, 1, 0, 1),
        (2**31 - 3, 9, 6, 7),
        (-1, 2, -1, 0),
    ],
)
def test_sequences_wrap(base: int, delta: int, last: int, following: int) -> None:
    header = header_of(base_sequence=base, last_offset_delta=delta)
    assert header.last_sequence == last
    assert header.next_sequence == following
    assert add_to_sequence(2**31 - 1, 1) == 0


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_numbers_of_no_codec(codec: int) -> None:
    header = header_of(attributes=codec)
    for call in (
        lambda: header.compression,
        lambda: decode_records(golden("uncompressed-0"), 0, header, limit=LIMIT),
    ):
        with pytest.raises(KafkaError) as caught:
            call()
        assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("size", [0, 16, 17, 60])
def test_a_buffer_too_short_for_a_header(size: int) -> None:
    data = golden("uncompressed-0")[:size]
    with pytest.raises(KafkaError) as caught:
        read_header(data)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert not crc_matches(data, 0, size)
    assert list(batches(data)) == []


def test_checksums() -> None:
    data = bytearray(b"before") + golden("idempotent-0") + b"behind"
    size = len(data) - 12
    assert crc_matches(data, 6, size)
    assert crc_matches(memoryview(data), 6, size)
    assert not crc_matches(data, 6, size - 1)
    assert not crc_matches(data, 6, size + 7)
    for position in range(6 + MAGIC_AT + 1, 6 + size):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        assert not crc_matches(damaged, 6, size)


@pytest.mark.parametrize("as_view", [False, True])
def test_assigned_offsets_leave_the_checksum_alone(as_view: bool) -> None:
    data = bytearray(5) + golden("headers-0")
    assign(memoryview(data) if as_view else data, 5, 2**62, 77)
    header = read_header(data, 5)
    assert (header.base_offset, header.partition_leader_epoch) == (2**62, 77)
    assert crc_matches(data, 5, header.size)
    assign(data, 5, 0, 0)
    assert data[5:] == golden("headers-0")


@pytest.mark.parametrize("codec", ["", "-gzip"])
def test_append_time_as_the_real_broker_writes_it(codec: str) -> None:
    expected = golden(f"log-append-time{codec}-0")
    original = golden(codec[1:] + "-0" if codec else "uncompressed-0")
    data = bytearray(3) + original + b"next"
    set_append_time(memoryview(data), 3, read_header(expected).max_timestamp)
    assert data[3:-4] == expected
    set_create_time(data, 3)
    header = read_header(data, 3)
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert crc_matches(data, 3, header.size)


# Many batches -----------------------------------------------------------------------------------------------


def test_batches_one_behind_another() -> None:
    parts = [golden("idempotent-0"), golden("gzip-0"), golden("idempotent-1")]
    data = b"".join(parts)
    found = list(batches(data))
    assert [position for position, _ in found] == [0, len(parts[0]), len(parts[0]) + len(parts[1])]
    assert [header for _, header in found] == [read_header(part) for part in parts]
    assert list(batches(memoryview(data), found[1][0])) == found[1:]
    for size in range(found[2][0], len(data)):
        assert list(batches(data[:size])) == found[:2]


@pytest.mark.parametrize(("magic", "code"), [(0, 87), (1, 87), (3, 2), (127, 2), (200, 2)])
@pytest.mark.parametrize("size", [26, 200])
def test_other_formats_are_only_recognised(magic: int, code: int, size: int) -> None:
    """A message of the old formats may be shorter than the header of a batch."""
    data = bytearray(size)
    data[BATCH_LENGTH_AT + 3] = size - 12
    data[MAGIC_AT] = magic
    whole = golden("uncompressed-0")
    found = batches(whole + data)
    assert next(found) == (0, read_header(whole))
    with pytest.raises(KafkaError) as caught:
        next(found)
    assert caught.value.code == code


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_lengths_that_no_batch_has(length: int) -> None:
    data = golden("uncompressed-0")
    data[BATCH_LENGTH_AT : BATCH_LENGTH_AT + 4] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(KafkaError) as caught:
        list(batches(data))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(KafkaError) as caught:
        decode_records(data, 0, read_header(data), limit=LIMIT)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


# Round trips ------------------------------------------------------------------------------------------------

blobs = st.none() | st.binary(max_size=200)
times = st.integers(-1, 2**62) | st.integers(NOW_MS, NOW_MS + 100)
header_lists = st.lists(st.tuples(st.text(max_size=10), blobs), max_size=4).map(tuple)
record_lists = st.lists(
    st.builds(Record, st.just(0), times, blobs, blobs, header_lists), min_size=1, max_size=30
)
codecs = st.sampled_from(list(Compression))


@pytest.mark.slow
@settings(deadline=None)
@given(
    record_lists, codecs, st.integers(0, 2**62), st.lists(st.integers(1, 10_000), min_size=30, max_size=30)
)
def test_round_trip(records: list[Record], codec: Compression, base_offset: int, gaps: list[int]) -> None:
    offset = base_offset
    placed = []
    for record, gap in zip(records, gaps, strict=False):
        placed.append(record._replace(offset=offset))
        offset += gap
    batch = encode_batch(placed, compression=codec, base_offset=base_offset)
    header = read_header(batch)
    assert crc_matches(batch, 0, len(batch))
    assert header.last_offset == placed[-1].offset
    assert header.max_timestamp == max(record.timestamp for record in placed)
    assert decode_records(batch, 0, header, limit=LIMIT) == placed
    payload = payload_of(batch, 0, header, LIMIT)
    assert records_error(payload, len(placed)) is None
    keyless = [index for index, record in enumerate(placed) if record.key is None]
    assert has_null_key(payload, len(placed)) == (keyless[0] if keyless else None)


@pytest.mark.slow
@settings(deadline=None)
@given(record_lists, codecs, codecs, st.booleans())
def test_recompressed_batches_hold_the_same(
    records: list[Record], source: Compression, target: Compression, append_time: bool
) -> None:
    batch = encode_batch(
        [record._replace(offset=500 + index) for index, record in enumerate(records)],
        compression=source,
        base_offset=500,
        leader_epoch=4,
        producer_id=9,
        producer_epoch=3,
        base_sequence=70,
        transactional=True,
    )
    if append_time:
        set_append_time(batch, 0, NOW_MS)
    data = b"before" + batch
    header = read_header(data, 6)
    result = recompress(data, 6, header, target, None, LIMIT)
    assert crc_matches(result, 0, len(result))
    again = read_header(result)
    assert again.compression is target
    assert again.size == len(result)
    same = {"batch_length": 0, "crc": 0, "attributes": 0}
    assert again._replace(**same) == header._replace(**same)
    assert again.attributes & ~7 == header.attributes & ~7
    assert decode_records(result, 0, again, limit=LIMIT) == decode_records(batch, 0, header, limit=LIMIT)


def test_a_limit_for_what_comes_out() -> None:
    batch = encode_batch([Record(0, 0, None, bytes(5_000))], compression=Compression.ZSTD)
    header = read_header(batch)
    for call in (
        lambda: decode_records(batch, 0, header, limit=5_000),
        lambda: recompress(batch, 0, header, Compression.NONE, None, 5_000),
    ):
        with pytest.raises(KafkaError) as caught:
            call()
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_as_compaction_leaves_it() -> None:
    records = [Record(12, NOW_MS + 3, b"k", None), Record(15, NOW_MS + 1, b"l", b"v")]
    batch = encode_batch(
        records,
        base_offset=10,
        last_offset_delta=9,
        base_timestamp=NOW_MS + 500,
        delete_horizon=True,
        producer_id=1,
        producer_epoch=0,
        base_sequence=40,
    )
    header = read_header(batch)
    assert header.has_delete_horizon
    assert (header.last_offset, header.last_sequence) == (19, 49)
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS + 500, NOW_MS + 3)
    assert decode_records(batch, 0, header, limit=LIMIT) == records


def test_a_batch_without_records() -> None:
    batch = encode_batch([], base_offset=10, last_offset_delta=4, max_timestamp=NOW_MS, producer_id=1)
    header = read_header(batch)
    assert len(batch) == HEADER_SIZE
    assert (header.last_offset, header.record_count, header.max_timestamp) == (14, 0, NOW_MS)
    assert decode_records(batch, 0, header, limit=LIMIT) == []


@pytest.mark.slow
@settings(deadline=None)
@given(record_lists, codecs)
def test_the_builder_agrees_with_encode_batch(records: list[Record], codec: Compression) -> None:
    builder = BatchBuilder()
    for record in records:
        builder.append(record.key, record.value, record.headers, record.timestamp)
    assert builder.count == len(records)
    size = builder.size
    placed = [record._replace(offset=index) for index, record in enumerate(records)]
    batch = builder.build(
        compression=codec, transactional=True, producer_id=1, producer_epoch=2, base_sequence=3
    )
    assert batch == encode_batch(
        placed, compression=codec, transactional=True, producer_id=1, producer_epoch=2, base_sequence=3
    )
    if codec is Compression.NONE:
        assert len(batch) == size
    assert (builder.count, builder.size) == (0, HEADER_SIZE)


def test_a_builder_used_again() -> None:
    builder = BatchBuilder()
    builder.append(b"a", b"b", (), NOW_MS)
    first = builder.build()
    copy = bytes(first)
    builder.append(b"c", b"d", (), 5)
    (record,) = decode_records(builder.build(), 0, read_header(first), limit=LIMIT)
    assert (record.key, first) == (b"c", copy)
    with pytest.raises(AssertionError):
        builder.build()


# Other implementations --------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", Compression, ids=lambda codec: codec.label)
def test_aiokafka_reads_ours_and_we_read_its_own(codec: Compression) -> None:
    records = [
        Record(
            index,
            NOW_MS + index,
            b"k%d" % index if index % 3 else None,
            b"v" * index,
            (("h", None), ("i", b"x")),
        )
        for index in range(200)
    ]
    batch = encode_batch(records, compression=codec)
    theirs = DefaultRecordBatch(bytes(batch))
    assert theirs.validate_crc()
    assert [
        (each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in theirs
    ] == records
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 20)
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    built = bytes(builder.build())
    header = read_header(built)
    assert header.compression is codec
    assert crc_matches(built, 0, len(built))
    assert decode_records(built, 0, header, limit=LIMIT) == records


# Damage -----------------------------------------------------------------------------------------------------


EXPECTED = {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
}


def decode_or_none(data: bytes | bytearray) -> list[Record] | None:
    """The records of the only batch there; None where a KafkaError says that there is none."""
    try:
        return decode_records(data, 0, read_header(data), limit=LIMIT)
    except KafkaError as error:
        if error.code in EXPECTED:
            return None
        raise


@every_golden
def test_every_truncation(data: bytes, content: dict[str, Any]) -> None:
    for size in range(len(data)):
        assert decode_or_none(data[:size]) is None
        assert list(batches(data[:size])) == []
        if size >= HEADER_SIZE:  # and when the length has been made to fit
            shorter = bytearray(data[:size])
            shorter[BATCH_LENGTH_AT : BATCH_LENGTH_AT + 4] = (size - 12).to_bytes(4, "big")
            assert decode_or_none(shorter) in (None, recorded(content))


@every_golden
def test_every_flipped_bit_is_found_by_the_checksum_or_harmless(data: bytes, content: dict[str, Any]) -> None:
    records = recorded(content)
    for position in range(len(data)):
        for bit in (0, 3, 7):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            result = decode_or_none(damaged)
            if position >= ATTRIBUTES_AT:
                assert not crc_matches(damaged, 0, len(damaged))
            elif result is not None and position >= BATCH_LENGTH_AT:
                assert result == records


@settings(deadline=None)
@given(
    st.sampled_from([data for _, data, _ in ALL]),
    st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=6),
)
def test_damage_with_a_checksum_that_matches(data: bytes, damage: list[tuple[int, int]]) -> None:
    """An attacker computes the checksum too, so nothing may rest on it."""
    damaged = bytearray(data)
    for position, byte in damage:
        damaged[ATTRIBUTES_AT + position % (len(data) - ATTRIBUTES_AT)] = byte
    update_crc(damaged, 0)
    assert crc_matches(damaged, 0, len(damaged))
    result = decode_or_none(damaged)
    if result is not None:
        for record in result:
            assert -(2**63) <= record.timestamp < 2**63


@settings(deadline=None)
@given(
    count=st.integers(1, 8),
    base=st.integers(0, 100),
    end=st.integers(0, 120),
    codec=st.sampled_from(Compression),
    kind=st.sampled_from(TimestampType),
    step=st.integers(1, 3),
)
def test_a_truncated_batch_keeps_everything_else(
    count: int, base: int, end: int, codec: Compression, kind: TimestampType, step: int
) -> None:
    records = [Record(base + i * step, 1000 - i, b"%d" % i, b"v", (("h", b"1"),)) for i in range(count)]
    batch = encode_batch(
        records,
        compression=codec,
        base_offset=base,
        leader_epoch=7,
        timestamp_type=kind,
        max_timestamp=5000,
        producer_id=3,
        producer_epoch=2,
        base_sequence=9,
        transactional=True,
    )
    header = read_header(batch)
    before = decode_records(batch, 0, header, limit=LIMIT)
    cut = truncate_batch(batch, 0, header, end, limit=LIMIT)
    kept = [record for record in before if record.offset < end]
    if not kept:
        assert cut is None
        return
    assert cut is not None
    after = read_header(cut)
    assert crc_matches(cut, 0, len(cut))
    assert decode_records(cut, 0, after, limit=LIMIT) == kept
    assert after.last_offset == min(header.last_offset, end - 1)
    same = ("base_offset", "partition_leader_epoch", "attributes", "base_timestamp", "producer_id")
    for name in (*same, "producer_epoch", "base_sequence"):
        assert getattr(after, name) == getattr(header, name), name
    largest = 5000 if kind is TimestampType.LOG_APPEND_TIME else max(r.timestamp for r in kept)
    assert after.max_timestamp == largest
