"""Batches in shared memory.

What the JVM finds there is what was put in, and segments change hands in turn.
"""

import os
import struct
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.protocol.compression import Compression
from moldau.protocol.payload import Record
from moldau.protocol.records import encode_batch
from moldau.spark.jvm import shared_batches
from moldau.spark.jvm.column_memory import allocating_from, bytes_for_pieces, fresh_bytes
from moldau.spark.jvm.shared_batches import hand_over
from moldau.spark.read.columns import arrow_batch
from moldau.spark.read.decompression import Decompressor
from moldau.spark.read.fast_decode import decode

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="shared memory of this kind is Linux's"
)

HEAD = struct.Struct("<iiiiqqiii")
MANY = pa.schema(
    [
        ("key", pa.binary()),
        ("text", pa.string()),
        ("number", pa.int32()),
        ("flag", pa.bool_()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("price", pa.decimal128(38, 2)),
        ("part", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])),
        ("list", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("map", pa.map_(pa.string(), pa.list_(pa.float64()))),
    ]
)


class Jvm:
    """The other side: opens what a note names, and says when it is done with it."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.pipe: int | None = None
        #: The numbers of the segments, in the order in which they came.
        self.segments: list[int] = []
        #: How many columns were pieces of what was fetched.
        self.placed = 0

    def read(self, note: Any) -> pa.RecordBatch | None:
        assert note.schema.names == ["__moldau_shared"]
        (text,) = (value.as_py() for value in note.column(0))
        assert len(text) > 65536, "Spark would keep it back"
        process, pipe, segment, rows, number, size, arrays, buffers, placed = HEAD.unpack_from(text)
        if process == 0:
            return None
        if self.pipe is None:
            self.pipe = os.open(f"/proc/{process}/fd/{pipe}", os.O_WRONLY)
        opened = os.open(f"/proc/{process}/fd/{segment}", os.O_RDONLY)
        content = os.pread(opened, size, 0)
        os.close(opened)
        self.segments.append(number)
        numbers = struct.unpack_from(f"<{2 * (arrays + buffers)}q", text, HEAD.size)
        pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
        nodes = iter(pairs[:arrays])
        parts = iter([content[at : at + length] for at, length in pairs[arrays:]])
        columns = [self._array(field.type, nodes, parts) for field in self.schema]
        more = struct.unpack_from(f"<{4 * placed}q", text, HEAD.size + 8 * len(numbers))
        for index, nulls, at, sizes in zip(*(more[start::4] for start in range(4)), strict=True):
            assert len(columns[index]) == 0
            columns[index] = self._pieces(content, rows, at, sizes)
            assert columns[index].null_count == nulls
            self.placed += 1
        assert next(nodes, None) is None
        assert next(parts, None) is None
        assert all(len(column) == rows for column in columns)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _array(self, kind: Any, nodes: Iterator[tuple[int, int]], parts: Iterator[bytes]) -> Any:
        length, nulls = next(nodes)
        valid = next(parts)
        children: list[Any] = []
        if pa.types.is_struct(kind):
            own = []
            children = [self._array(kind.field(i).type, nodes, parts) for i in range(kind.num_fields)]
        elif pa.types.is_list(kind) or pa.types.is_map(kind):
            own = [next(parts)]
            value = pa.struct([kind.key_field, kind.item_field]) if pa.types.is_map(kind) else kind.value_type
            children = [self._array(value, nodes, parts)]
        elif pa.types.is_string(kind) or pa.types.is_binary(kind):
            own = [next(parts), next(parts)]
        else:
            own = [next(parts)]
        buffers = [pa.py_buffer(valid) if nulls else None, *(pa.py_buffer(each) for each in own)]
        return pa.Array.from_buffers(kind, length, buffers, nulls, children=children or None)

    def _pieces(self, content: bytes, rows: int, at: int, sizes: int) -> Any:
        starts = struct.unpack_from(f"<{rows}q", content, at)
        lengths = struct.unpack_from(f"<{rows}q", content, sizes)
        pairs = zip(starts, lengths, strict=True)
        return pa.array(
            [None if size < 0 else content[start : start + size] for start, size in pairs], pa.binary()
        )

    def acknowledge(self, count: int = 1) -> None:
        assert self.pipe is not None
        os.write(self.pipe, b"\1" * count)

    def close(self) -> None:
        if self.pipe is not None:
            os.close(self.pipe)


@pytest.fixture(autouse=True)
def no_segments_from_before() -> Iterator[None]:
    shared_batches._left.clear()
    yield
    shared_batches._left.clear()


def numbers(count: int, first: int = 0) -> pa.RecordBatch:
    column = pa.array(range(first, first + count), pa.int64())
    return pa.RecordBatch.from_arrays([column], names=["n"])


def all_read(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, **how: bool
) -> tuple[list[pa.RecordBatch], Jvm]:
    """As a query reads that takes everything."""
    jvm, found = Jvm(schema), []
    for note in hand_over(batches, **how):
        if (batch := jvm.read(note)) is not None:
            found.append(batch)
            jvm.acknowledge()
    jvm.close()
    return found, jvm


_text = st.none() | st.text(max_size=5)
_rows = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.none() | st.binary(max_size=5),
            "text": _text,
            "number": st.none() | st.integers(-(2**31), 2**31 - 1),
            "flag": st.none() | st.booleans(),
            "time": st.none() | st.just(datetime(2026, 1, 2, 3, 4, 5, 6, UTC)),
            "price": st.none() | st.just(Decimal("12.34")),
            "part": st.none()
            | st.fixed_dictionaries({"a": st.none() | st.integers(0, 9), "b": st.lists(_text, max_size=3)}),
            "list": st.none()
            | st.lists(
                st.fixed_dictionaries({"key": st.text(max_size=3), "value": st.binary(max_size=3)}),
                max_size=3,
            ),
            "map": st.none()
            | st.lists(
                st.tuples(st.text(max_size=3), st.lists(st.floats(allow_nan=False), max_size=2)), max_size=2
            ),
        }
    ),
    min_size=1,
    max_size=12,
)


@settings(deadline=None)
@given(st.lists(_rows, max_size=4), st.integers(0, 3))
def test_what_is_read_is_what_was_put_in(rows: list[list[dict[str, Any]]], cut: int) -> None:
    batches = [pa.RecordBatch.from_pylist(each, schema=MANY) for each in rows]
    batches += [batch.slice(cut) for batch in batches]
    found, _ = all_read(batches, MANY)
    assert [b.to_pylist() for b in found] == [b.to_pylist() for b in batches if b.num_rows]
    for batch in found:
        batch.validate(full=True)


def test_a_fast_reader_waits_for_a_slow_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_batches, "_HEARTBEAT_SECONDS", 0.01)
    jvm = Jvm(numbers(1).schema)
    notes = hand_over([numbers(3, index * 3) for index in range(5)])
    found = [jvm.read(next(notes)) for _ in range(3)]
    assert [batch.column(0).to_pylist() for batch in found] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert len(set(jvm.segments)) == 3
    # All segments are taken: heartbeats, until one is given back.
    assert jvm.read(next(notes)) is None
    assert jvm.read(next(notes)) is None
    jvm.acknowledge()
    again = next(notes)
    while (batch := jvm.read(again)) is None:
        again = next(notes)
    assert batch.column(0).to_pylist() == [9, 10, 11]
    assert jvm.segments[3] == jvm.segments[0]
    jvm.acknowledge(3)
    assert jvm.read(next(notes)).column(0).to_pylist() == [12, 13, 14]
    assert jvm.read(next(notes)) is None, "the last segment has to be taken before the process may end"
    jvm.acknowledge()
    assert [each for each in notes if jvm.read(each) is not None] == []
    jvm.close()


def test_a_query_that_has_enough_is_noticed() -> None:
    jvm = Jvm(numbers(1).schema)
    notes = hand_over(numbers(3) for _ in range(100))
    jvm.read(next(notes))
    jvm.acknowledge()
    jvm.read(next(notes))
    jvm.close()
    with pytest.raises(BrokenPipeError):
        for _ in notes:
            pass


def test_segments_are_left_to_the_next_task_unless_somebody_may_look_at_them() -> None:
    _, first = all_read([numbers(5)] * 3, numbers(1).schema)
    _, second = all_read([numbers(5)] * 3, numbers(1).schema)
    assert set(second.segments) <= set(first.segments)
    jvm = Jvm(numbers(1).schema)
    notes = hand_over([numbers(5)])
    jvm.read(next(notes))
    notes.close()  # type: ignore[attr-defined]
    jvm.close()
    _, third = all_read([numbers(5)] * 3, numbers(1).schema)
    assert jvm.segments[0] not in third.segments


def test_a_batch_that_is_larger_than_its_segment() -> None:
    batches = [numbers(10), numbers(1_000_000), numbers(10)]
    found, jvm = all_read(batches, numbers(1).schema)
    assert found == batches
    # One behind the other, as each is acknowledged at once: the small segment makes way for a large one.
    assert jvm.segments[0] != jvm.segments[1] == jvm.segments[2]


def test_a_batch_above_the_largest_goes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_batches, "_LARGEST_BYTES", 1000)
    found, _ = all_read([numbers(1000)], numbers(1).schema)
    assert len(found) > 4
    assert [value for batch in found for value in batch.column(0).to_pylist()] == list(range(1000))


def test_columns_are_written_where_they_will_be_read() -> None:
    places: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for index in range(4):
            space = fresh_bytes(8 * 100)
            places.append(int(space.ctypes.data))
            space.view(np.int64)[:] = np.arange(100) + index
            column = pa.Array.from_buffers(pa.int64(), 100, [None, pa.py_buffer(space)])
            yield pa.RecordBatch.from_arrays([column], names=["n"])

    found, _ = all_read(batches(), numbers(1).schema)
    assert [batch.column(0)[0].as_py() for batch in found] == [0, 1, 2, 3]
    # Memory of the one segment that came back each time, not of the heap.
    assert len(set(places)) == 1


PIECES = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("offset", pa.int64())])


def pieces(fetched: list[list[tuple[bytes | None, bytes | None]]]) -> Iterator[pa.RecordBatch]:
    """What a task makes of fetches, each with some records."""
    decompressor = Decompressor()
    for records in fetched:
        made = encode_batch(
            [Record(index, 0, key, value, ()) for index, (key, value) in enumerate(records)],
            compression=Compression.ZSTD if len(records) % 2 else Compression.NONE,
        )
        memory = bytes_for_pieces(len(made))
        frame = memoryview(bytearray(made)) if memory is None else memory
        frame[:] = made
        columns = decode(
            frame,
            decompressor=decompressor,
            name="t-0",
            first_offset=0,
            end_offset=len(records),
            aborted=None,
        )
        yield arrow_batch(columns, ("key", "value", "offset"), "t", 0)


_bytes = st.none() | st.binary(max_size=30) | st.integers(0, 400_000).map(bytes)


@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(_bytes, _bytes), min_size=1, max_size=6), max_size=6), st.booleans())
def test_columns_are_pieces_of_what_was_fetched(
    fetched: list[list[tuple[bytes | None, bytes | None]]], in_place: bool
) -> None:
    found, jvm = all_read(pieces(fetched), PIECES, in_place=in_place)
    assert [
        list(zip(*(batch.column(i).to_pylist() for i in (0, 1)), strict=True)) for batch in found
    ] == fetched
    if not in_place:
        assert not jvm.placed


def test_pieces_are_not_copied_once_a_segment_is_large_enough() -> None:
    fetched: Any = [[(b"k", bytes(400_000)), (None, bytes(500_000))]] * 6
    found, jvm = all_read(pieces(fetched), PIECES, in_place=True)
    assert len(found) == 6
    assert jvm.placed >= 2 * 4
    # The segment grew, and stays what it is.
    assert len(set(jvm.segments)) <= 3


def test_what_is_not_lent_has_memory_of_its_own() -> None:
    class Small:
        takes_pieces = False

        def place_of(self, data: Any) -> int | None:
            return None

        def take(self, size: int) -> Any:
            return np.zeros(size, np.uint8) if size <= 10 else None

    with allocating_from(Small()):
        assert fresh_bytes(10).tolist() == [0] * 10
        assert len(fresh_bytes(11)) == 11
        assert bytes_for_pieces(5) is None
    assert len(fresh_bytes(5)) == 5
    assert bytes_for_pieces(5) is None
