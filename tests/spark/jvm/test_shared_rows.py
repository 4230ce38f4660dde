"""Rows in memory of the JVM: they are the rows that Arrow would have brought."""

import mmap
import os
import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.protocol.compression import Compression
from moldau.spark.jvm import shared_rows as shared_rows_module
from moldau.spark.jvm.shared_rows import are_notes, shared_rows
from moldau.spark.write.encode import choose_partitions, payloads
from moldau.spark.write.rows import Rows, rows_of

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="shared memory of this kind is Linux's"
)

NOW = 1_700_000_000_000
WIDTH = 64 * 8
BYTES_AT = 64 + 6 * WIDTH
NOTES = pa.schema([pa.field("__moldau_shared", pa.binary(), nullable=False)])
_numbers = iter(range(1, 1_000_000))


class JvmSegment:
    """As the JVM fills one."""

    def __init__(self, size: int = 1 << 16) -> None:
        self.size = size
        self.number = next(_numbers)
        self.descriptor = os.memfd_create("segment", 0)
        os.ftruncate(self.descriptor, size)
        self.memory = mmap.mmap(self.descriptor, size)

    def note(self, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> bytes:
        self.memory[:8] = bytes(8)
        used = BYTES_AT

        def put(column: int, row: int, number: int) -> None:
            struct.pack_into("<q", self.memory, 64 + column * WIDTH + 8 * row, number)

        for index, row in enumerate(rows):
            for column, name in ((0, "key"), (2, "value")):
                content = row.get(name)
                put(column, index, used)
                put(column + 1, index, -1 if content is None else len(content))
                if content is not None:
                    self.memory[used : used + len(content)] = content
                    used += len(content)
            put(4, index, -1 if row.get("partition") is None else row["partition"])
            put(5, index, -(2**63) if row.get("timestamp") is None else row["timestamp"])
        flags = sum(
            flag for flag, name in ((1, "key"), (2, "partition"), (4, "timestamp")) if name in columns
        )
        head = (os.getpid(), self.descriptor, len(rows), flags, self.number, self.size, WIDTH)
        return struct.pack("<iiiiqqq", *head).ljust(70_000, b"\0")

    def free(self) -> bool:
        return self.memory[:8] == b"\1" + bytes(7)


def as_batches(*notes: bytes) -> list[Any]:
    return [pa.RecordBatch.from_arrays([pa.array([note], pa.binary())], schema=NOTES) for note in notes]


@pytest.fixture(autouse=True)
def nothing_from_before() -> Iterator[None]:
    shared_rows_module._segments.clear()
    yield
    shared_rows_module._segments.clear()


def encoded(rows: Rows) -> list[Any]:
    return list(payloads(rows, choose_partitions(rows, 3, 1), 3, 1000, 10_000, Compression.NONE))


_row = st.fixed_dictionaries(
    {
        "key": st.none() | st.binary(max_size=6),
        "value": st.none() | st.binary(max_size=20),
        "partition": st.none() | st.integers(0, 2),
        "timestamp": st.none() | st.integers(0, 10**15),
    }
)
_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "partition": pa.int32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


@settings(deadline=None)
@given(st.lists(_row, min_size=1, max_size=64), st.sets(st.sampled_from(["key", "partition", "timestamp"])))
def test_they_are_written_as_arrows_rows_are(rows: list[dict[str, Any]], also: set[str]) -> None:
    names = ("value", *sorted(also))
    segment = JvmSegment()
    given_rows = [{name: row[name] for name in names} for row in rows]
    (shared,) = shared_rows(as_batches(segment.note(given_rows, names)), NOW)
    arrow = pa.RecordBatch.from_pylist(given_rows, schema=pa.schema([(n, _TYPES[n]) for n in names]))
    assert encoded(shared.rows) == encoded(rows_of(arrow, NOW))


def test_a_segment_is_given_back_when_its_rows_are_done_with() -> None:
    one, other = JvmSegment(), JvmSegment()
    found = shared_rows(
        as_batches(one.note([{"value": b"a"}], ()), bytes(70_000), other.note([{"value": b"b"}], ())), NOW
    )
    first = next(found)
    assert not one.free()
    first.failed()
    assert one.memory[:8] == b"\2" + bytes(7)
    first.done()
    assert one.free()
    # The heartbeat between the two is no row.
    assert next(found).rows.count == 1
    assert not other.free()
    # The same segment again, which is open already.
    (again,) = shared_rows(as_batches(one.note([{"value": b"c"}] * 3, ())), NOW)
    assert again.rows.count == 3
    assert bytes(again.rows.value.data[again.rows.value.at[2] :][:1]) == b"c"


def test_a_segment_that_has_grown_is_opened_anew() -> None:
    segment = JvmSegment()
    list(shared_rows(as_batches(segment.note([{"value": b"a"}], ())), NOW))
    segment.size *= 4
    os.ftruncate(segment.descriptor, segment.size)
    segment.memory = mmap.mmap(segment.descriptor, segment.size)
    (shared,) = shared_rows(as_batches(segment.note([{"value": b"x" * 100_000}], ())), NOW)
    assert shared.rows.value.sizes.tolist() == [100_000]
    assert bytes(shared.rows.value.data[shared.rows.value.at[0] :][:100_000]) == b"x" * 100_000


def test_segments_of_jvms_long_gone_are_not_kept() -> None:
    for _ in range(40):
        list(shared_rows(as_batches(JvmSegment().note([{"value": b"a"}], ())), NOW))
    assert len(shared_rows_module._segments) <= 16


def test_notes_are_told_from_rows() -> None:
    (notes,) = as_batches(bytes(70_000))
    assert are_notes(notes)
    assert not are_notes(pa.RecordBatch.from_pylist([{"value": b"a"}]))
