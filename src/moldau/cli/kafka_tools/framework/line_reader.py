"""From lines of text to records, by the rules of Kafka's LineMessageReader.

With ``parse.headers`` and ``parse.key`` a line is ``headers`` TAB ``key`` TAB ``value``, with headers as
``h1:v1,h2:v2``; there are properties for each separator. ``null.marker`` is the text that stands for null;
with ``ignore.error`` a line without a separator is a value.

Pure. Bytes that are not UTF-8 stay as they are.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from moldau.cli.kafka_tools.framework.exceptions import ToolError

_KAFKA_EXCEPTION = "org.apache.kafka.common.KafkaException"


class LineRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Lines:
    """Splits a stream of bytes into lines, which end with LF, CR or both, as for Java's reader."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are complete now; empty data means that the stream has ended."""
        if not data:
            rest, self._rest = self._rest, b""
            return re.split(rb"\r", rest.removesuffix(b"\r")) if rest else []
        *whole, self._rest = (self._rest + data).split(b"\n")
        lines: list[bytes] = []
        for line in whole:
            cut = line.removesuffix(b"\r")
            lines += cut.split(b"\r") if b"\r" in cut else [cut]
        return lines


@dataclass(frozen=True, slots=True)
class LineReader:
    parse_key: bool = False
    key_separator: bytes = b"\t"
    parse_headers: bool = False
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    ignore_error: bool = False
    null_marker: bytes | None = None

    @classmethod
    def configured(cls, properties: Mapping[str, str]) -> "LineReader":
        """From the properties of ``--reader-property``; ToolError where they contradict each other."""

        def text(name: str, default: bytes) -> bytes:
            return properties[name].encode("utf-8", "surrogateescape") if name in properties else default

        def flag(name: str) -> bool:
            return properties.get(name, "").strip().lower() == "true"

        reader = cls(
            parse_key=flag("parse.key"),
            key_separator=text("key.separator", b"\t"),
            parse_headers=flag("parse.headers"),
            headers_delimiter=text("headers.delimiter", b"\t"),
            headers_separator=text("headers.separator", b","),
            headers_key_separator=text("headers.key.separator", b":"),
            ignore_error=flag("ignore.error"),
            null_marker=text("null.marker", b"") if "null.marker" in properties else None,
        )
        reader._check()
        return reader

    def _check(self) -> None:
        pairs = (
            ("headers.delimiter", self.headers_delimiter, "headers.separator", self.headers_separator),
            (
                "headers.delimiter",
                self.headers_delimiter,
                "headers.key.separator",
                self.headers_key_separator,
            ),
            (
                "headers.separator",
                self.headers_separator,
                "headers.key.separator",
                self.headers_key_separator,
            ),
            ("null.marker", self.null_marker, "key.separator", self.key_separator),
            ("null.marker", self.null_marker, "headers.separator", self.headers_separator),
            ("null.marker", self.null_marker, "headers.delimiter", self.headers_delimiter),
            ("null.marker", self.null_marker, "headers.key.separator", self.headers_key_separator),
        )
        for first, one, second, other in pairs:
            if one == other:
                raise ToolError(_KAFKA_EXCEPTION, f"{first} and {second} may not be equal")

    def parse(self, line: bytes, line_number: int) -> LineRecord:
        """The record of a line; ToolError names a line that cannot be parsed."""
        headers, at = self._cut(
            self.parse_headers, line, 0, self.headers_delimiter, "headers delimiter", line_number
        )
        key, at = self._cut(self.parse_key, line, at, self.key_separator, "key separator", line_number)
        value = line[at:]
        pairs: tuple[tuple[str, bytes | None], ...] = ()
        if headers is not None and headers != self.null_marker:
            pairs = tuple(self._headers(headers, line_number))
        return LineRecord(
            None if key == self.null_marker else key, None if value == self.null_marker else value, pairs
        )

    def _cut(
        self, wanted: bool, line: bytes, start: int, separator: bytes, name: str, line_number: int
    ) -> tuple[bytes | None, int]:
        """The part before a separator, and where the rest begins."""
        if not wanted:
            return None, start
        at = line.find(separator, start)
        if at < 0:
            if self.ignore_error:
                return None, start
            raise ToolError(
                _KAFKA_EXCEPTION, f"No {name} found on line number {line_number}: '{_shown(line)}'"
            )
        return line[start:at], at + len(separator)

    def _headers(self, text: bytes, line_number: int) -> Iterator[tuple[str, bytes | None]]:
        # As for Java's split, the separator is a regular expression, and empty pairs at the end are dropped.
        pairs = re.split(self.headers_separator, text)
        while len(pairs) > 1 and not pairs[-1]:
            pairs.pop()
        for pair in pairs:
            name, separator, value = pair.partition(self.headers_key_separator)
            if not separator:
                if not self.ignore_error:
                    raise ToolError(
                        _KAFKA_EXCEPTION,
                        f"No header key separator found in pair '{_shown(pair)}' "
                        f"on line number {line_number}",
                    )
                yield _shown(pair), None
                continue
            if name == self.null_marker:
                raise ToolError(
                    _KAFKA_EXCEPTION,
                    f"Header keys should not be equal to the null marker '{_shown(name)}' "
                    "as they can't be null",
                )
            yield _shown(name), None if value == self.null_marker else value


def _shown(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
