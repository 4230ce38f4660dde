import struct as packing
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.protocol import codec
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.protocol.primitives import (
    MalformedMessage,
    TextTooLong,
    TooManyElements,
    read_unsigned_varint,
    skip_tagged_fields,
    write_unsigned_varint,
)
from moldau.protocol.schema import (
    Bool,
    Bytes,
    Field,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Uint16,
    Uint32,
    UuidBytes,
    data,
    declaration,
    field,
    struct,
)


@struct
class Pair:
    left: Int32 = field(default=-1)
    right: String | None = field(default=None)


@struct
class Element:
    name: String = field("0-1")
    identifier: UuidBytes = field("2+")
    numbers: list[Int16] | None = field()
    pairs: list[Pair] = field("1+")
    note: String = field("2+", tag=0)


@data(versions="0-3", flexible="2+")
class Sample:
    """Every kind of field; flexible from version 2."""

    small: Int8 = field()
    middle: Int16 = field()
    port: Uint16 = field()
    number: Int32 = field("1+", default=42)
    unsigned: Uint32 = field()
    large: Int64 = field()
    real: Float64 = field()
    flag: Bool = field()
    text: String = field()
    maybe_text: String | None = field(nullable="1+")
    blob: Bytes = field()
    maybe_blob: Bytes | None = field()
    identifiers: list[UuidBytes] = field()
    texts: list[String] = field()
    flags: list[Bool] = field()
    elements: list[Element] | None = field()
    pair: Pair = field("2+")
    maybe_pair: Pair | None = field("2+")
    batches: Records | None = field()
    tagged_number: Int64 = field("2+", tag=3, default=-1)
    tagged_pair: Pair = field("2+", tag=1)
    tagged_list: list[Pair] = field("2+", tag=2)
    tagged_text: String | None = field("2+", tag=9, default=None)
    once_plain: Int32 = field(tag=5, tagged="3+")


_NUMBERS = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    "bytes": st.binary(max_size=300),
    "records": st.binary(max_size=300),
    "uuid": st.binary(min_size=16, max_size=16),
}


def _values(f: Field, version: int) -> st.SearchStrategy[Any]:
    strategy = _NUMBERS[f.kind] if isinstance(f.kind, str) else _messages(f.kind, version)
    if f.is_array:
        strategy = st.lists(strategy, max_size=4)
    return st.none() | strategy if version in f.nullable else strategy


def _messages(cls: type, version: int) -> st.SearchStrategy[Any]:
    present = [f for f in declaration(cls).fields if version in f.present]
    return st.builds(cls, **{f.name: _values(f, version) for f in present})


@pytest.mark.slow
@given(st.integers(0, 3).flatmap(lambda version: st.tuples(st.just(version), _messages(Sample, version))))
def test_what_is_written_is_read(drawn: tuple[int, Sample]) -> None:
    version, message = drawn
    frame = codec.encode(message, version)
    assert codec.reader(Sample, version)(memoryview(frame), 0) == (message, len(frame))
    assert codec.decode(Sample, version, b"before" + frame + b"behind", 6) == message


@pytest.mark.parametrize("version", [-1, 4, 100])
def test_a_version_that_is_not_declared(version: int) -> None:
    with pytest.raises(ValueError, match=f"Sample has no version {version}"):
        codec.reader(Sample, version)
    with pytest.raises(ValueError, match=f"Sample has no version {version}"):
        codec.encode(Sample(), version)


def test_readers_and_writers_are_made_once() -> None:
    assert codec.reader(Sample, 1) is codec.reader(Sample, 1)
    assert codec.writer(Sample, 1) is codec.writer(Sample, 1)


def test_fields_that_a_version_lacks_take_their_defaults() -> None:
    message = Sample(
        number=7, pair=Pair(1), tagged_number=5, elements=[Element(identifier=b"i" * 16, note="n")]
    )
    read = codec.decode(Sample, 0, codec.encode(message, 0))
    assert (read.number, read.pair, read.maybe_pair, read.tagged_number) == (42, Pair(), None, -1)
    assert read.elements == [Element()]


# layouts ----------------------------------------------------------------------------------------------------


@data(versions="0-1", flexible="1+")
class Strings:
    text: String = field()
    maybe: String | None = field()
    blob: Bytes = field()
    maybe_blob: Bytes | None = field()
    list_: list[String] | None = field()


def test_lengths_before_and_in_flexible_versions() -> None:
    message = Strings("ž", None, b"b", None, ["x", ""])
    assert codec.encode(message, 0).hex(" ") == (
        "00 02 c5 be ff ff 00 00 00 01 62 ff ff ff ff 00 00 00 02 00 01 78 00 00"
    )
    assert codec.encode(message, 1).hex(" ") == "03 c5 be 00 02 62 00 03 02 78 01 00"
    empty = Strings("", "", b"", b"", None)
    assert codec.encode(empty, 0).hex(" ") == "00 00 00 00 00 00 00 00 00 00 00 00 ff ff ff ff"
    assert codec.encode(empty, 1).hex(" ") == "01 01 01 01 00 00"


def test_long_lengths_take_more_bytes() -> None:
    for size, prefix in ((126, "7f"), (127, "80 01"), (16382, "ff 7f"), (16383, "80 80 01")):
        frame = codec.encode(Strings("x" * size), 1)
        assert frame.startswith(bytes.fromhex(prefix) + b"xx")
        assert codec.decode(Strings, 1, frame).text == "x" * size


@data(versions="0", flexible="0+")
class Nested:
    inner: Pair | None = field()


def test_a_nullable_structure_has_a_byte_before_it() -> None:
    assert codec.encode(Nested(None), 0).hex(" ") == "ff 00"
    assert codec.encode(Nested(Pair(1, "x")), 0).hex(" ") == "01 00 00 00 01 02 78 00 00"
    assert codec.decode(Nested, 0, bytes.fromhex("80 00")) == Nested(None)
    assert codec.decode(Nested, 0, bytes.fromhex("00 00 00 00 01 00 00 00")) == Nested(Pair(1))


@data(versions="0-1", flexible="1+")
class Tagged:
    plain: Int8 = field()
    third: Int8 = field("1+", tag=200, default=7)
    first: String | None = field("1+", tag=0, default=None)
    second: Pair = field("1+", tag=1)
    listed: list[Int32] = field("1+", tag=2)


def test_tagged_fields_are_written_in_order_and_only_if_they_say_something() -> None:
    assert codec.encode(Tagged(1), 1).hex(" ") == "01 00"
    assert codec.encode(Tagged(1, 7, None, Pair(), []), 1).hex(" ") == "01 00"
    assert codec.encode(Tagged(1, 8, "x", Pair(right="y"), [3]), 1).hex(" ") == (
        "01 04 00 02 02 78 01 07 ff ff ff ff 02 79 00 02 05 02 00 00 00 03 c8 01 01 08"
    )
    assert codec.encode(Tagged(1, 8, "x"), 0).hex(" ") == "01"


def test_unknown_tagged_fields_are_passed_over() -> None:
    frame = bytes.fromhex("01 03  00 02 02 78  05 03 aa bb cc  c8 01 01 08")
    assert codec.reader(Tagged, 1)(memoryview(frame), 0) == (Tagged(1, 8, "x"), len(frame))
    unknown = bytes.fromhex("ff 02 07 01 aa  ff ff ff ff 0f 00")
    assert codec.reader(Nested, 0)(memoryview(unknown), 0) == (Nested(None), len(unknown))


@pytest.mark.parametrize(
    "frame",
    [
        "01 01 00 03 02 78 79",  # a string that ends before its field
        "01 01 00 01 02 78",  # a string that ends behind its field
        "01 01 00 09 02 78",  # a field that ends behind the frame
        "01 01 05 02 aa",  # an unknown field that ends behind the frame
        "01 02 00 02 02 78",  # fewer fields than announced
        "01 ff ff ff ff 0f",  # four thousand million fields
        "01 01",
        "01",
        "",
    ],
)
def test_tagged_fields_that_are_cut_or_too_long(frame: str) -> None:
    with pytest.raises(MalformedMessage):
        codec.decode(Tagged, 1, bytes.fromhex(frame))


def test_a_null_that_is_not_allowed() -> None:
    for version, frame in ((0, "ff ff"), (1, "00")):
        with pytest.raises(MalformedMessage, match=f"Strings v{version} has a null"):
            codec.decode(Strings, version, bytes.fromhex(frame))
    with pytest.raises((TypeError, AttributeError)):
        codec.encode(Strings(text=None), 0)  # type: ignore[arg-type]


def test_text_that_is_not_utf8() -> None:
    with pytest.raises(MalformedMessage, match="Strings v0"):
        codec.decode(Strings, 0, bytes.fromhex("00 02 c5 c5"))


# record batches ---------------------------------------------------------------------------------------------


@struct
class Batch:
    index: Int32 = field()
    records: Records | None = field()


@data(versions="0-1", flexible="1+")
class Batches:
    name: String = field()
    batches: list[Batch] = field()


@dataclass(frozen=True, slots=True)
class Slice:
    """Stands for a piece of a file."""

    size: int


def test_record_batches_are_views_of_the_frame() -> None:
    frame = bytearray(codec.encode(Batches("t", [Batch(0, b"batch"), Batch(1, None), Batch(2, b"")]), 1))
    read = codec.decode(Batches, 1, frame)
    first = read.batches[0].records
    assert isinstance(first, memoryview)
    assert first.obj is frame
    assert [b.records for b in read.batches] == [b"batch", None, b""]


@pytest.mark.parametrize("given", [b"batch", bytearray(b"batch"), memoryview(b"batch")])
def test_record_batches_in_memory_are_written_in_place(given: Any) -> None:
    assert codec.encode(Batches("t", [Batch(3, given)]), 1) == codec.encode(
        Batches("t", [Batch(3, b"batch")]), 1
    )


@pytest.mark.parametrize("version", [0, 1])
def test_record_batches_in_files_are_spliced_in(version: int) -> None:
    batches = {3: b"one" * 50, 5: b"two"}
    out, splices = bytearray(b"header"), []
    pieces = [
        Batch(3, Slice(150)),
        Batch(4, None),
        Batch(5, Slice(3)),
        Batch(6, Slice(0)),
        Batch(7, b"seven"),
    ]
    codec.writer(Batches, version)(Batches("t", pieces), out, splices)
    assert [found for _, found in splices] == [Slice(150), Slice(3)]
    for (position, _), content in zip(reversed(splices), reversed(batches.values()), strict=True):
        out[position:position] = content
    in_memory = [
        Batch(3, batches[3]),
        Batch(4, None),
        Batch(5, batches[5]),
        Batch(6, b""),
        Batch(7, b"seven"),
    ]
    assert out == b"header" + codec.encode(Batches("t", in_memory), version)


def test_encode_refuses_what_is_not_in_memory() -> None:
    with pytest.raises(AssertionError, match="not in memory"):
        codec.encode(Batches("t", [Batch(3, Slice(150))]), 1)


# hostile lengths --------------------------------------------------------------------------------------------


@data(versions="0-1", flexible="1+")
class Numbers:
    numbers: list[Int64] = field()
    elements: list[Pair] = field()


@pytest.mark.parametrize("count", [2**31 - 1, 1000, 2])
def test_an_array_longer_than_the_frame_is_refused_before_it_is_made(count: int) -> None:
    with pytest.raises(MalformedMessage, match="an array that is cut"):
        codec.decode(Numbers, 0, packing.pack(">i", count) + bytes(15))
    frame = bytearray()
    write_unsigned_varint(count + 1, frame)
    with pytest.raises(MalformedMessage, match="an array that is cut"):
        codec.decode(Numbers, 1, bytes(frame) + bytes(15))


def test_a_negative_count_is_null() -> None:
    with pytest.raises(MalformedMessage, match="null"):
        codec.decode(Numbers, 0, packing.pack(">i", -5) + bytes(15))


# variable-length numbers ------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1))
def test_variable_length_numbers(value: int) -> None:
    out = bytearray()
    write_unsigned_varint(value, out)
    assert read_unsigned_varint(b"\xff" + out + b"\xff", 1) == (value, 1 + len(out))
    assert len(out) == max(1, -(-value.bit_length() // 7))


def test_numbers_may_be_written_longer_than_needed() -> None:
    assert read_unsigned_varint(bytes.fromhex("80 80 80 80 00"), 0) == (0, 5)
    assert read_unsigned_varint(bytes.fromhex("81 00"), 0) == (1, 2)


@pytest.mark.parametrize("text", ["ff ff ff ff 10", "80 80 80 80 80 00", "ff ff ff ff ff ff"])
def test_numbers_beyond_32_bits(text: str) -> None:
    with pytest.raises(MalformedMessage):
        read_unsigned_varint(bytes.fromhex(text), 0)


@pytest.mark.parametrize("text", ["", "80", "ff ff", "ff ff ff", "ff ff ff ff"])
def test_numbers_that_are_cut(text: str) -> None:
    with pytest.raises(IndexError):
        read_unsigned_varint(bytes.fromhex(text), 0)


def test_tagged_fields_are_skipped() -> None:
    assert skip_tagged_fields(bytes.fromhex("00 aa"), 0) == 1
    assert skip_tagged_fields(bytes.fromhex("02 00 01 aa 05 00 bb"), 0) == 6
    with pytest.raises(MalformedMessage):
        skip_tagged_fields(bytes.fromhex("01 00 05 aa"), 0)


# --- bounds -----------------------------------------------------------------------------------------


@struct
class Shelf:
    books: list[String] = field()
    numbers: list[Int32] = field()


@data(versions="0-1", flexible="1+")
class Library:
    shelves: list[Shelf] = field()


@pytest.mark.parametrize("version", [0, 1])
def test_elements_are_counted_over_all_arrays(version: int) -> None:
    library = Library([Shelf(["a", "b", "c"], [1, 2]), Shelf([], [1, 2, 3, 4])])
    frame = codec.encode(library, version)
    elements = 2 + 3 + 2 + 4
    assert codec.decode(Library, version, frame, elements=elements) == library
    with pytest.raises(TooManyElements, match="has too many elements"):
        codec.decode(Library, version, frame, elements=elements - 1)


@pytest.mark.parametrize("version", [0, 1])
def test_arrays_of_one_are_free(version: int) -> None:
    library = Library([Shelf(["a"], [1])])
    assert codec.decode(Library, version, codec.encode(library, version), elements=0) == library


def test_a_reader_in_steps_pauses_at_every_element_and_stops_at_the_bound() -> None:
    frame = memoryview(codec.encode(Library([Shelf(["a"] * 50, [])] * 10), 1))
    steps = codec.stepped_reader(Library, 1)(frame, 0, 510)
    assert sum(1 for _ in steps) >= 510
    with pytest.raises(TooManyElements):
        list(codec.stepped_reader(Library, 1)(frame, 0, 509))


def test_a_string_is_no_longer_than_kafkas() -> None:
    longest = Library([Shelf(["x" * 32767], [])])
    assert codec.decode(Library, 1, codec.encode(longest, 1)) == longest
    with pytest.raises(MalformedMessage, match="a string of 32768 bytes"):
        codec.decode(Library, 1, codec.encode(Library([Shelf(["x" * 32768], [])]), 1))


def test_nobody_has_so_many_tagged_fields() -> None:
    with pytest.raises(MalformedMessage, match="16383 tagged fields"):
        skip_tagged_fields(b"\xff\x7f" + bytes(100_000), 0)
    frame = codec.encode(Library([]), 1)
    with pytest.raises(MalformedMessage, match="16383 tagged fields"):
        codec.decode(Library, 1, frame[:-1] + b"\xff\x7f" + bytes(100_000))


@pytest.mark.parametrize("version", [1, 13])
def test_a_request_has_no_text_that_its_reader_would_refuse(version):
    """A broker closes the connection for it, and others may have requests on that."""
    longest = MetadataRequest(topics=[MetadataRequestTopic(name="x" * 32767)])
    assert codec.encode(longest, version)
    with pytest.raises(TextTooLong, match="32768 bytes"):
        codec.encode(MetadataRequest(topics=[MetadataRequestTopic(name="x" * 32768)]), version)
