"""What others have named is shown to people without commanding their terminal or faking lines of a log."""

import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.base.escaping import EscapingFormatter, escaped, escaped_bytes, escaped_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders-1", "orders-1"),
        ("größe 日本 🙂", "größe 日本 🙂"),
        ("\x1b[2J\x1b]0;title\x07", "\\u001b[2J\\u001b]0;title\\u0007"),
        ("a\r\nERROR fake", "a\\r\\nERROR fake"),
        ("\x9b31m", "\\u009b31m"),
        ("\x7f\x00", "\\u007f\\u0000"),
        ("user\u202etxt.exe", "user\\u202etxt.exe"),
        ("half \udc9b", "half \\udc9b"),
        ("a\tb", "a\\tb"),
    ],
)
def test_names_in_one_line(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_lines_and_tabs_of_a_text_stay() -> None:
    assert escaped_lines('{\n\t"a": "\x1b[31m"\r\n}') == '{\n\t"a": "\\u001b[31m"\\r\n}'


def test_bytes_that_are_no_text() -> None:
    assert escaped_bytes("grün\n".encode()) == "grün\n".encode()
    assert escaped_bytes(b"\x9b2J\x1b\xff") == b"\\x9b2J\\u001b\\xff"


@given(st.text())
def test_what_is_escaped_is_printable_or_harmless(text: str) -> None:
    assert all(ord(character) >= 32 and ord(character) != 127 for character in escaped(text))
    assert escaped(escaped(text)) == escaped(text)


@given(st.text())
def test_json_stays_json(text: str) -> None:
    document = json.dumps(text, ensure_ascii=False)
    assert json.loads(escaped_lines(document)) == text


def test_a_log_record_is_one_line_and_a_traceback_keeps_its_lines() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(EscapingFormatter("%(levelname)s %(message)s"))
    logger = logging.getLogger("moldau.test-escaping")
    logger.propagate = False
    logger.addHandler(handler)
    try:
        logger.warning("client %s left", "evil\n2026 INFO all is well\x1b[2J")
        try:
            raise ValueError("group \x1b[31mred\x07")
        except ValueError:
            logger.exception("failed")
    finally:
        logger.removeHandler(handler)
    first, second, *traceback = stream.getvalue().splitlines()
    assert first == "WARNING client evil\\n2026 INFO all is well\\u001b[2J left"
    assert second == "ERROR failed"
    assert traceback[0].startswith("Traceback")
    assert traceback[-1] == "ValueError: group \\u001b[31mred\\u0007"
