"""Text of others, shown to people: what would command a terminal, or fake a line of a log, is escaped.

Names and texts that come from peers (client ids, groups, members, headers, errors) may hold any character.
Escaped are control characters, DEL, the C1 controls, the separators of lines and paragraphs, what turns the
direction of writing around, and halves of surrogate pairs; all else stays as it is. Pure.
"""

import logging
import re
from types import TracebackType
from typing import TypeAlias

#: Also the C1 controls: some terminals take U+009B for the start of a command.
_UNSAFE = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_IN_ONE_LINE = re.compile(f"[{_UNSAFE}]")
#: Tabs and ends of lines stay.
_IN_LINES = re.compile(f"(?![\t\n])[{_UNSAFE}]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

_ExcInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)


def escaped(text: str) -> str:
    """The text in one line."""
    return _IN_ONE_LINE.sub(_escape, text)


def escaped_lines(text: str) -> str:
    """The text with its lines and tabs."""
    return _IN_LINES.sub(_escape, text)


def escaped_bytes(data: bytes) -> bytes:
    """What a terminal may be sent to show ``data``, with its lines and tabs; bytes that are no UTF-8 too."""
    return escaped_lines(data.decode("utf-8", "backslashreplace")).encode()


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return _SHORT.get(character) or f"\\u{ord(character):04x}"


class EscapingFormatter(logging.Formatter):
    """A record of the log is one line, whatever its arguments hold; a traceback keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        record.message = escaped(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802
        return escaped_lines(super().formatException(ei))
