"""SimpleHeaderConverter: headers as texts, from which numbers, dates, lists and maps are read back."""

from moldau.connect.config.definition import ConfigDef
from moldau.connect.converters.base import Converter
from moldau.connect.data.parsing import parse
from moldau.connect.data.schema import NOTHING, Schema, SchemaAndValue
from moldau.connect.data.text import decode_like_java, header_text
from moldau.connect.data.types import Type

_STRING = Schema(Type.STRING)
_BYTES = Schema(Type.BYTES)


class SimpleHeaderConverter(Converter):
    config = ConfigDef()

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        return None if value is None else header_text(value).encode("utf-8", "replace")

    def to_connect(self, topic: str, raw: bytes | None) -> SchemaAndValue:
        return self.to_connect_header(topic, "", raw) or NOTHING

    def to_connect_header(self, topic: str, header: str, raw: bytes | None) -> SchemaAndValue | None:
        if raw is None:
            return NOTHING
        if not raw:
            return SchemaAndValue(_STRING, "")
        try:
            text = decode_like_java(raw) if self.like_kafka else bytes(raw).decode("utf-8")
        except UnicodeDecodeError:  # no text, so it stays what it is
            return SchemaAndValue(_BYTES, bytes(raw))
        parsed = parse(text, whole=not self.like_kafka)
        return parsed if parsed is not None or self.like_kafka else NOTHING
