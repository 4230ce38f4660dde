import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.protocol.framing import skip_header_tags, write_request_header
from moldau.protocol.primitives import MalformedMessage
from tests.shared.request_headers import RequestHeader, read_request_header

_INT16 = st.integers(-(2**15), 2**15 - 1)
_INT32 = st.integers(-(2**31), 2**31 - 1)
_CLIENT_IDS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


@given(_INT16, _INT16, _INT32, _CLIENT_IDS, st.booleans())
def test_a_request_header_is_read_as_it_was_written(
    api_key: int, version: int, correlation_id: int, client_id: str | None, flexible: bool
) -> None:
    out = bytearray()
    write_request_header(out, api_key, version, correlation_id, client_id, flexible)
    out += b"body"
    for frame in (bytes(out), memoryview(out)):
        header = read_request_header(frame)
        position = skip_header_tags(frame, header.position) if flexible else header.position
        assert header[:4] == (api_key, version, correlation_id, client_id)
        assert bytes(frame[position:]) == b"body"


def test_the_layout() -> None:
    out = bytearray()
    write_request_header(out, 18, 4, 258, "é", True)
    assert out.hex(" ") == "00 12 00 04 00 00 01 02 00 02 c3 a9 00"
    out = bytearray()
    write_request_header(out, 3, 1, -1, None, False)
    assert out.hex(" ") == "00 03 00 01 ff ff ff ff ff ff"
    assert read_request_header(out) == RequestHeader(3, 1, -1, None, 10)


def test_unknown_tags_of_the_header_are_passed_over() -> None:
    assert skip_header_tags(bytes.fromhex("aa 02 00 01 bb 85 01 02 cc dd ee"), 1) == 10


@pytest.mark.parametrize(
    "tags", ["", "01", "01 00", "01 00 02 aa", "02 00 00", "ff ff ff ff 0f", "ff ff ff ff ff"]
)
def test_tags_that_are_cut(tags: str) -> None:
    with pytest.raises(MalformedMessage):
        skip_header_tags(bytes.fromhex(tags), 0)
