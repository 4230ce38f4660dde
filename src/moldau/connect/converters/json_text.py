"""JSON as bytes, written and read the way Apache's JsonConverter does.

Texts keep their letters but for what lies beyond the first plane, which is escaped; floats have Java's
digits. Reading keeps every digit of a number and stops after the first value.

Invariant: what is no JSON, or is too deep or too long a number, is a SerializationException.
"""

import json
import re
from decimal import Decimal
from typing import Any

from moldau.connect.data.numbers import float_text
from moldau.connect.errors import SerializationException

MAX_NUMBER_LENGTH = 1_000

_ESCAPED = re.compile('["\\\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\b": "\\b"}
_SPACES = " \t\n\r"


class Missing:
    """Stands for no value at all: bytes without a JSON value in them."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing()


def write(node: object) -> bytes:
    out: list[str] = []
    _write(node, out)
    return "".join(out).encode("utf-8", "surrogatepass")


def _write(node: object, out: list[str]) -> None:
    if node is None:
        out.append("null")
    elif isinstance(node, str):
        out.append(_quoted(node))
    elif isinstance(node, bool):
        out.append("true" if node else "false")
    elif isinstance(node, int):
        out.append(int.__repr__(node))
    elif isinstance(node, float):
        text = float_text(node)
        out.append(text if node - node == 0 else f'"{text}"')
    elif isinstance(node, Decimal):
        out.append(str(node))
    elif isinstance(node, dict):
        _write_object(node, out)
    else:
        assert isinstance(node, list)
        _write_list(node, out)


def _write_object(node: dict[str, object], out: list[str]) -> None:
    out.append("{")
    separator = ""
    for name, item in node.items():
        out.append(f"{separator}{_quoted(name)}:")
        _write(item, out)
        separator = ","
    out.append("}")


def _write_list(node: list[object], out: list[str]) -> None:
    out.append("[")
    for index, item in enumerate(node):
        if index:
            out.append(",")
        _write(item, out)
    out.append("]")


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: "re.Match[str]") -> str:
    character = match[0]
    short = _SHORT.get(character)
    if short is not None:
        return short
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04X}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}"


def _refuse(constant: str) -> Any:
    raise SerializationException(f"Non-standard token '{constant}'")


def _integer(text: str) -> int:
    if len(text) > MAX_NUMBER_LENGTH:
        raise SerializationException(
            f"Number value length ({len(text)}) exceeds the maximum allowed ({MAX_NUMBER_LENGTH})"
        )
    return int(text)


def _decimal(text: str) -> Decimal:
    if len(text) > MAX_NUMBER_LENGTH:
        raise SerializationException(
            f"Number value length ({len(text)}) exceeds the maximum allowed ({MAX_NUMBER_LENGTH})"
        )
    return Decimal(text)


def _unsigned_zero(text: str) -> Decimal:
    number = _decimal(text)
    return number if number else abs(number)


_DECODER = json.JSONDecoder(parse_float=_decimal, parse_int=_integer, parse_constant=_refuse)
#: Apache's reader knows no zero below zero.
_APACHE_DECODER = json.JSONDecoder(parse_float=_unsigned_zero, parse_int=_integer, parse_constant=_refuse)


#: Texts, and zeros before the digits of a number.
_ZEROS = re.compile(r'("(?:[^"\\]|\\.)*")|(?<![0-9.eE+])(-?)0+(?=[0-9])')
_MAYBE_ZEROS = re.compile(r"(?:^|[\[,:\s-])0[0-9]")


def _without_zeros(text: str) -> str:
    """Apache's reader takes numbers with zeros before them."""
    if _MAYBE_ZEROS.search(text) is None:
        return text
    return _ZEROS.sub(lambda match: match[1] or match[2] or "", text)


#: Escapes of the halves of a character beyond the first plane, of which there have to be two.
_HALVES = re.compile(r"\\u[dD][89a-fA-F]")


def _refuse_halves(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError as error:
        raise SerializationException(
            "A text has half of a character, a surrogate without its pair"
        ) from error


def read(raw: bytes, whole: bool) -> object:
    """The value of some bytes, or MISSING if they are empty. With ``whole`` nothing may follow the value, and
    texts have to be such as other systems can be given."""
    try:
        encoding = json.detect_encoding(raw) if len(raw) >= 4 else "utf-8-sig"
        text = raw.decode("utf-8-sig" if encoding == "utf-8" else encoding).lstrip(_SPACES)
    except UnicodeDecodeError as error:
        raise SerializationException(
            f"Invalid {error.encoding} at byte {error.start}: {error.reason}"
        ) from error
    if not text:
        return MISSING
    try:
        text = text if whole else _without_zeros(text)
        value, end = (_DECODER if whole else _APACHE_DECODER).raw_decode(text)
    except json.JSONDecodeError as error:
        raise SerializationException(f"{error.msg} at line {error.lineno}, column {error.colno}") from error
    except (RecursionError, ValueError) as error:
        raise SerializationException(f"Document is nested too deeply or has a bad number: {error}") from error
    if whole and _HALVES.search(text):
        _refuse_halves(value)
    rest = text[end:]
    scalar = not isinstance(value, dict | list | str)
    if (whole and rest.strip(_SPACES)) or (scalar and rest and rest[0] not in _SPACES):
        raise SerializationException(f"Unexpected text after the value: {rest[:20]!r}")
    return value
