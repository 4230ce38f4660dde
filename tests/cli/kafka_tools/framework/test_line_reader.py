"""From lines to records, as Kafka's LineMessageReader has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.cli.kafka_tools.framework.line_reader import LineReader, LineRecord, Lines


def parse(line: bytes, **properties: str) -> LineRecord:
    names = {name.replace("_", "."): value for name, value in properties.items()}
    return LineReader.configured(names).parse(line, 1)


@pytest.mark.parametrize(
    ("line", "properties", "expected"),
    [
        (b"a", {}, LineRecord(None, b"a")),
        (b"", {}, LineRecord(None, b"")),
        (b"k\tv\tw", {"parse_key": "true"}, LineRecord(b"k", b"v\tw")),
        (b"k::v", {"parse_key": "TRUE", "key_separator": "::"}, LineRecord(b"k", b"v")),
        (
            b"h1:a,h2:b\tkey\tvalue",
            {"parse_headers": "true", "parse_key": "true"},
            LineRecord(b"key", b"value", (("h1", b"a"), ("h2", b"b"))),
        ),
        (
            b"NULL\tNULL\tNULL",
            {"parse_headers": "true", "parse_key": "true", "null_marker": "NULL"},
            LineRecord(None, None),
        ),
        (
            b"h1:NULL,\tv",
            {"parse_headers": "true", "null_marker": "NULL"},
            LineRecord(None, b"v", (("h1", None),)),
        ),
        (
            b"h=1;g=2|v",
            {
                "parse_headers": "true",
                "headers_delimiter": "|",
                "headers_separator": ";",
                "headers_key_separator": "=",
            },
            LineRecord(None, b"v", (("h", b"1"), ("g", b"2"))),
        ),
        (b"no separator", {"parse_key": "true", "ignore_error": "true"}, LineRecord(None, b"no separator")),
        (
            b"h\tv",
            {"parse_headers": "true", "ignore_error": "true"},
            LineRecord(None, b"v", (("h", None),)),
        ),
        (b"\xff\tv\xfe", {"parse_key": "true"}, LineRecord(b"\xff", b"v\xfe")),
    ],
)
def test_parse(line: bytes, properties: dict[str, str], expected: LineRecord) -> None:
    assert parse(line, **properties) == expected


@pytest.mark.parametrize(
    ("line", "properties", "message"),
    [
        (
            b"nokey",
            {"parse_key": "true", "key_separator": ":"},
            "No key separator found on line number 1: 'nokey'",
        ),
        (b"a", {"parse_headers": "true"}, "No headers delimiter found on line number 1: 'a'"),
        (
            b"ab\tc",
            {"parse_headers": "true"},
            "No header key separator found in pair 'ab' on line number 1",
        ),
        (
            b"N:b\tc",
            {"parse_headers": "true", "null_marker": "N"},
            "Header keys should not be equal to the null marker 'N' as they can't be null",
        ),
    ],
)
def test_lines_that_do_not_fit(line: bytes, properties: dict[str, str], message: str) -> None:
    with pytest.raises(ToolError) as error:
        parse(line, **properties)
    assert error.value.message == message


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"headers.separator": ":"}, "headers.separator and headers.key.separator may not be equal"),
        ({"headers.delimiter": ","}, "headers.delimiter and headers.separator may not be equal"),
        ({"null.marker": ","}, "null.marker and headers.separator may not be equal"),
        ({"null.marker": "\t"}, "null.marker and key.separator may not be equal"),
    ],
)
def test_separators_must_differ(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ToolError) as error:
        LineReader.configured(properties)
    assert error.value.message == message


def feed(*chunks: bytes) -> list[bytes]:
    lines = Lines()
    return [line for chunk in (*chunks, b"") for line in lines.feed(chunk)]


def test_lines_end_with_lf_cr_or_both() -> None:
    assert feed(b"a\nb\r\nc\rd\n") == [b"a", b"b", b"c", b"d"]
    assert feed(b"a\n\nb") == [b"a", b"", b"b"]
    assert feed(b"a\r") == [b"a"]
    assert feed(b"") == []


@given(st.binary(max_size=60).filter(lambda data: b"\r" not in data), st.integers(1, 7))
def test_lines_do_not_depend_on_where_chunks_end(data: bytes, size: int) -> None:
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    expected = data.split(b"\n")
    assert feed(*chunks) == (expected if expected[-1] else expected[:-1])
