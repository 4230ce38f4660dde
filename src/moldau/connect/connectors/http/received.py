"""What a request says, as a record: topic by path, key from a header or a field, the body as the value.

Invariant: pure; a request that makes no record is a DataException with words for its sender. Headers with
secrets never become part of a record.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from moldau.connect.converters.json import JsonConverter
from moldau.connect.data.schema import Schema
from moldau.connect.data.text import java_text
from moldau.connect.data.types import Type
from moldau.connect.errors import ConfigException, DataException, JavaError
from moldau.connect.records import Header, SourceRecord

STRING, BYTES, JSON = "string", "bytes", "json"
_JSON = JsonConverter({"schemas.enable": "false"})
_TEXT, _BYTES = Schema(Type.STRING), Schema(Type.BYTES)
#: Headers that are about the connection, or secret.
_ABOUT_CONNECTION = ("connection", "content-length", "expect", "host", "keep-alive", "te", "trailer")
_LEFT_OUT = frozenset(
    ("authorization", "cookie", "proxy-authorization", "transfer-encoding", "upgrade", *_ABOUT_CONNECTION)
)
_EVERY = "*"


@dataclass(frozen=True, slots=True)
class Shape:
    """How requests become records."""

    topics: Mapping[str, str]
    #: For paths that ``topics`` does not have; empty: there are no others.
    topic: str
    value_format: str
    key_header: str
    key_field: tuple[str, ...]
    headers: frozenset[str]
    path_header: str

    def topic_of(self, path: str) -> str | None:
        return self.topics.get(path.rstrip("/") or "/", self.topic) or None

    def record(
        self, topic: str, path: str, headers: Iterable[tuple[bytes, bytes]], body: bytes
    ) -> SourceRecord:
        named = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers]
        schema, value = self._value(body)
        key = self._key(named, value)
        kept = [
            Header(name, _TEXT, text)
            for name, text in named
            if name not in _LEFT_OUT and (name in self.headers or _EVERY in self.headers)
        ]
        if self.path_header:
            kept.append(Header(self.path_header, _TEXT, path))
        return SourceRecord(
            topic=topic,
            key_schema=None if key is None else _TEXT,
            key=key,
            value_schema=schema,
            value=value,
            headers=tuple(kept),
        )

    def _value(self, body: bytes) -> tuple[Schema | None, object]:
        if self.value_format == BYTES:
            return _BYTES, body
        if self.value_format == JSON:
            if not body.strip():
                raise DataException("The body is empty, which is no JSON")
            try:
                found = _JSON.to_connect("", body)
            except JavaError as error:
                raise DataException(f"The body is no JSON: {error.message}") from None
            return None, found.value
        try:
            return _TEXT, body.decode()
        except UnicodeDecodeError:
            raise DataException("The body is no text in UTF-8") from None

    def _key(self, headers: Sequence[tuple[str, str]], value: object) -> str | None:
        if self.key_header:
            for name, text in headers:
                if name == self.key_header:
                    return text
            raise DataException(f"The header {self.key_header}, which gives the key, is missing")
        if not self.key_field:
            return None
        found = value
        for name in self.key_field:
            found = found.get(name) if isinstance(found, dict) else None
        if not isinstance(found, str | int | float):
            raise DataException(f"The field {'.'.join(self.key_field)}, which gives the key, has no value")
        return java_text(found)


def parse_topics(entries: Iterable[str]) -> dict[str, str]:
    """``/orders=orders, /logs/app=logs`` by path."""
    found: dict[str, str] = {}
    for entry in entries:
        path, separator, topic = (part.strip() for part in entry.partition("="))
        if not path.startswith("/") or not separator or not topic:
            raise ConfigException.of("http.topics", entry, "An entry is written as /path=topic")
        found[path.rstrip("/") or "/"] = topic
    return found
