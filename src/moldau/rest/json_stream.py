"""JSON objects one behind another, cut apart as their bytes arrive.

Pure. The work is linear in the bytes, however they are cut: brackets outside of texts are counted, and
nothing is read twice. What one object may be long is bounded; more is a ``StreamError``, after which nothing
can be read any more, because nobody knows where the next one begins.
"""

import re
from collections.abc import Iterator

#: What matters for finding the end of an object.
_TOKEN = re.compile(rb'["{}\[\]]|\\.', re.DOTALL)
#: What may be between two of them.
_BETWEEN = b" \t\r\n"


class StreamError(ValueError):
    """The stream cannot be read from here on."""


class ObjectSplitter:
    def __init__(self, max_object_bytes: int) -> None:
        self._max = max_object_bytes
        self._buffer = bytearray()
        #: How far the buffer has been looked at, and what was open there.
        self._looked = 0
        self._depth = 0
        self._in_text = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The objects that are complete with this piece."""
        self._buffer += data
        while (end := self._end_of_object()) is not None:
            if end > self._max:
                raise StreamError(f"a record is larger than {self._max} bytes")
            found = bytes(self._buffer[:end])
            del self._buffer[:end]
            self._looked = 0
            yield found
        if len(self._buffer) > self._max:
            raise StreamError(f"a record is larger than {self._max} bytes")

    def finish(self) -> None:
        """To be called when nothing more comes."""
        if self._buffer.strip(_BETWEEN):
            raise StreamError("the request ends in the middle of a record")

    def _end_of_object(self) -> int | None:
        if self._depth == 0:
            self._skip_between()
        position = self._looked
        for token in _TOKEN.finditer(self._buffer, position):
            position = token.end()
            kind = token[0]
            if self._in_text:
                self._in_text = kind != b'"'
            elif kind == b'"':
                self._in_text = True
            elif kind in b"{[":
                self._depth += 1
            elif kind in b"}]":
                self._depth -= 1
                if self._depth == 0:
                    return position
        # A backslash at the end waits for what it escapes; everything else has been looked at.
        self._looked = max(position, len(self._buffer) - self._buffer.endswith(b"\\"))
        return None

    def _skip_between(self) -> None:
        start = 0
        while start < len(self._buffer) and self._buffer[start] in _BETWEEN:
            start += 1
        del self._buffer[:start]
        self._looked = 0
        if self._buffer and self._buffer[0] != ord("{"):
            raise StreamError("a record is a JSON object")
