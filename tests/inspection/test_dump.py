"""What the files of a log hold: sound ones, old ones, broken ones."""

import contextlib
import io
import json
import struct
import zlib
from pathlib import Path

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.inspection import dump
from moldau.inspection.dump import DumpedBatch, DumpError, LegacyHeader, OffsetEntry, TimeEntry
from moldau.protocol.compression import Compression
from moldau.protocol.records import Record, encode_batch

GOLDEN = Path(__file__).parents[1] / "data" / "golden_bytes"


def golden(name: str) -> list[bytes]:
    return [bytes.fromhex(b["hex"]) for b in json.loads((GOLDEN / f"{name}.json").read_text())["batches"]]


def batches(data: bytes, **options: int) -> list[DumpedBatch]:
    return list(dump.read_batches(io.BytesIO(data), "x.log", **options))


def three_batches() -> bytes:
    records = [Record(offset, 100 + offset, b"k", b"v%d" % offset) for offset in range(6)]
    parts = [encode_batch(records[at : at + 2], base_offset=at) for at in (0, 2, 4)]
    return b"".join(bytes(part) for part in parts)


def test_batches_with_their_positions() -> None:
    found = batches(three_batches())
    size = found[0].size
    assert [(b.position, b.header.last_offset, b.valid) for b in found] == [
        (0, 1, True),
        (size, 3, True),
        (2 * size, 5, True),
    ]
    assert [record.value for record in dump.read_records(found[1])] == [b"v2", b"v3"]


def test_a_batch_that_is_cut_is_left_out() -> None:
    data = three_batches()
    assert len(batches(data[:-1])) == 2
    assert len(batches(data + b"garbage")) == 3
    assert len(batches(data, limit=len(data) - 1)) == 2
    assert [b.header.last_offset for b in batches(data, start=len(data) // 3, limit=len(data) // 3)] == [3]
    assert batches(b"") == []


def test_a_wrong_checksum_is_shown_and_not_refused() -> None:
    data = bytearray(three_batches())
    data[70] ^= 1
    assert [b.valid for b in batches(bytes(data))] == [False, True, True]


def test_a_length_that_cannot_be() -> None:
    data = bytearray(three_batches())
    struct.pack_into(">i", data, 8, 1)
    with pytest.raises(
        DumpError, match=r"Found record size 1 smaller than minimum record overhead \(14\) in file x\.log\."
    ):
        batches(bytes(data))
    struct.pack_into(">i", data, 8, 20)
    with pytest.raises(DumpError, match="smaller than its header"):
        batches(bytes(data))


def test_records_that_make_no_sense() -> None:
    (whole,) = batches(bytes(encode_batch([Record(0, 0, None, b"v" * 100)], compression=Compression.GZIP)))
    broken = DumpedBatch(0, whole.header, whole.data[:70] + bytes(len(whole.data) - 70), False)
    with pytest.raises(DumpError, match="Cannot read the records of the batch at position 0"):
        dump.read_records(broken)


def test_sequences_and_timestamps() -> None:
    (batch, *_) = batches(golden("transaction-commit-abort")[0])
    header = batch.header
    assert not isinstance(header, LegacyHeader)
    assert [dump.sequence_of(header, record) for record in dump.read_records(batch)] == [0, 1, 2]
    (append,) = batches(golden("log-append-time")[0])
    assert dump.timestamp_type(append) == "LogAppendTime"
    (zstd,) = batches(golden("zstd")[0])
    assert dump.timestamp_type(zstd) == "CreateTime"
    assert dump.compression_number(zstd) == Compression.ZSTD


def legacy(magic: int, key: bytes | None, value: bytes | None, timestamp: int = 77) -> bytes:
    """A message as brokers wrote it before 2017."""
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", timestamp) if magic else b"")
    for part in (key, value):
        body += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 41, len(message)) + message


def test_messages_of_old_formats() -> None:
    old, newer = batches(legacy(0, None, b"old") + legacy(1, b"k", b"newer"))
    assert (old.valid, newer.valid) == (True, True)
    assert (old.header.magic, old.header.max_timestamp, dump.timestamp_type(old)) == (
        0,
        -1,
        "NoTimestampType",
    )
    assert (newer.header.max_timestamp, dump.timestamp_type(newer)) == (77, "CreateTime")
    assert dump.read_records(old) == [Record(41, -1, None, b"old")]
    assert dump.read_records(newer) == [Record(41, 77, b"k", b"newer")]
    (cut,) = batches(legacy(1, b"k", b"newer")[:8] + struct.pack(">i", 22) + legacy(1, b"k", b"newer")[12:34])
    assert not cut.valid
    with pytest.raises(DumpError):
        dump.read_records(cut)


def test_offset_indexes() -> None:
    data = struct.pack(">iiii", 295, 16277, 443, 32554)
    entries = dump.offset_entries(data + b"\0\0\0", 1000)
    assert entries == [OffsetEntry(1295, 16277), OffsetEntry(1443, 32554)]
    padded = dump.offset_entries(data + bytes(80), 1000)
    assert len(padded) == 12
    assert dump.used_entries(padded, 1000) == entries
    assert dump.used_entries([OffsetEntry(0, 0)], 0) == [OffsetEntry(0, 0)]


def test_time_indexes() -> None:
    data = struct.pack(">qi", 1794779379914, 295)
    padded = dump.time_entries(data + bytes(24), 0)
    assert dump.used_entries(padded, 0) == [TimeEntry(1794779379914, 295)]


def test_what_a_broker_checks_at_its_start() -> None:
    assert dump.offset_index_fault(struct.pack(">ii", 5, 7), 0, "P") is None
    assert dump.offset_index_fault(b"", 0, "P") is None
    assert dump.offset_index_fault(b"123", 0, "P") == (
        "Index file P is corrupt, found 3 bytes which is neither positive nor a multiple of 8"
    )
    assert dump.offset_index_fault(struct.pack(">ii", -5, 7), 10, "P") == (
        "Corrupt index found, index file (P) has non-zero size but the last offset is 5 which is less than "
        "the base offset 10"
    )
    assert dump.time_index_fault(struct.pack(">qi", 5, 7), 0, "P") is None
    assert dump.time_index_fault(struct.pack(">qi", 9, 7) + bytes(12), 0, "P") == (
        "Corrupt time index found, time index file (P) has non-zero size but the last timestamp is 0 "
        "which is less than the first timestamp 9"
    )
    assert dump.time_index_fault(struct.pack(">qi", 9, -7), 0, "P") == (
        "Corrupt time index found, time index file (P) has non-zero size but the last offset is -7 "
        "which is less than the first offset 0"
    )
    assert dump.time_index_fault(b"1234", 0, "P") == (
        "Time index file P is corrupt, found 4 bytes which is neither positive nor a multiple of 12"
    )


def test_from_an_index_into_the_log() -> None:
    data = three_batches()
    log, size = io.BytesIO(data), len(data) // 3
    assert dump.last_offset_at(log, "x.log", size, 1000) == 3
    with pytest.raises(DumpError, match="There is no whole batch at position"):
        dump.last_offset_at(log, "x.log", size, 20)
    entries = [OffsetEntry(3, size), OffsetEntry(5, 2 * size)]
    for offset, last in ((0, 1), (3, 3), (4, 5)):
        found = dump.batch_with_offset(log, "x.log", entries, offset)
        assert found is not None
        assert found.header.last_offset == last
    assert dump.batch_with_offset(log, "x.log", entries, 6) is None


def test_aborted_transactions() -> None:
    entry = bytes.fromhex("0000 000000000000000d 0000000000000004 0000000000000007 0000000000000008")
    (found,) = dump.aborted_transactions(entry + b"cut", "P")
    assert found == (13, 4, 7, 8)
    assert dump.trailing_txn_bytes(entry + b"cut") == 3
    with pytest.raises(DumpError, match="Unexpected aborted transaction version 1 in transaction index P"):
        dump.aborted_transactions(b"\0\1" + entry[2:], "P")


SNAPSHOT = bytes.fromhex(
    "0001 4cd357c9 00000001 000000000000000d 0000 00000002 0000000000000002 00000002 "
    "0000019b76daa802 ffffffff 0000000000000000"
)


def test_producers() -> None:
    (entry,) = dump.producer_entries(SNAPSHOT)
    assert entry == (13, 0, 2, 2, 2, 1767225600002, -1, 0)
    assert entry.first_sequence == 0
    assert dump.producer_entries(bytes.fromhex("0001 48674bc7 00000000")) == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "Snapshot failed schema validation: 0 bytes are too few for its header"),
        (b"\0\7" + SNAPSHOT[2:], "Snapshot contained an unknown file version 7"),
        (SNAPSHOT[:-1], "Snapshot failed schema validation: it claims 1 producers and has room for 0"),
        (SNAPSHOT[:6] + b"\x7f\xff\xff\xff", "it claims 2147483647 producers and has room for 0"),
        (
            SNAPSHOT[:-1] + b"\1",
            r"Snapshot is corrupt \(CRC is no longer valid\)\. Stored crc: 1288918985\. ",
        ),
    ],
)
def test_snapshots_that_are_none(data: bytes, message: str) -> None:
    with pytest.raises(DumpError, match=message):
        dump.producer_entries(data)


def test_the_checksum_covers_the_count() -> None:
    body = struct.pack(">i", 0)
    assert dump.producer_entries(struct.pack(">hI", 1, crc32c.crc32c(body)) + body) == []


@given(st.binary(max_size=200), st.integers(0, 400))
def test_any_bytes_are_shown_or_refused_in_words(noise: bytes, at: int) -> None:
    data = bytearray(three_batches())
    at = min(at, len(data))
    data[at : at + len(noise)] = noise
    for text in (bytes(data), noise):
        with contextlib.suppress(DumpError):
            for batch in batches(text):
                dump.timestamp_type(batch)
                dump.read_records(batch)
        with contextlib.suppress(DumpError):
            dump.producer_entries(text)
        with contextlib.suppress(DumpError):
            dump.aborted_transactions(text, "P")
        dump.offset_index_fault(text, 0, "P")
        dump.time_index_fault(text, 0, "P")
