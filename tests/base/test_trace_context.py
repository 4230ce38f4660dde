"""The traceparent header: as the standard has it, and what is none."""

import itertools

import pytest

from moldau.base.trace_context import TraceContext

HEADER = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_header_is_read_and_written() -> None:
    context = TraceContext.parse(HEADER)
    assert context == ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", True)
    assert context.header() == HEADER
    assert TraceContext.parse(HEADER[:-1] + b"0") == context._replace(sampled=False)


@pytest.mark.parametrize(
    "header",
    [
        None,
        b"",
        b"nonsense",
        HEADER.upper(),
        b"ff" + HEADER[2:],
        HEADER + b"-more",
        b"00-" + b"0" * 32 + HEADER[35:],
        HEADER[:36] + b"0" * 16 + HEADER[52:],
        HEADER[:-1],
    ],
)
def test_what_is_no_header_is_none(header: bytes | None) -> None:
    assert TraceContext.parse(header) is None


def test_a_later_version_may_have_more() -> None:
    assert TraceContext.parse(b"01" + HEADER[2:] + b"-what-the-future-brings") is not None


def test_a_child_is_of_the_same_trace() -> None:
    numbers = itertools.count(1)
    made = TraceContext.new(lambda size: next(numbers).to_bytes(size, "big"))
    child = made.child(lambda size: next(numbers).to_bytes(size, "big"))
    assert child.trace_id == made.trace_id
    assert child.span_id != made.span_id
    zeros = iter([bytes(8), b"\x01" * 8])
    assert made.child(lambda size: next(zeros)).span_id == "01" * 8


def test_the_last_good_header_of_a_record_counts() -> None:
    other = HEADER.replace(b"4bf9", b"aaaa")
    headers = [("x", b"1"), ("Traceparent", HEADER), ("traceparent", other), ("traceparent", b"rubbish")]
    found = TraceContext.of(headers)
    assert found is not None
    assert found.header() == other
    assert TraceContext.of([]) is None
