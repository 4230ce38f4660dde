"""StringConverter: any value as text, and every text as a string."""

import codecs
import re

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings, Width
from moldau.connect.converters.base import CONVERTER_TYPE, Converter
from moldau.connect.data.schema import Schema, SchemaAndValue
from moldau.connect.data.text import decode_like_java, java_text
from moldau.connect.data.types import Type
from moldau.connect.errors import (
    DataException,
    IllegalCharsetNameException,
    SerializationException,
    UnsupportedCharsetException,
)

_SCHEMA = Schema(Type.STRING, optional=True)


class StringConverter(Converter):
    config = ConfigDef(
        CONVERTER_TYPE,
        ConfigKey(
            "converter.encoding",
            ConfigType.STRING,
            "UTF-8",
            Importance.HIGH,
            "The character set of the texts, by the names that Java has for them.",
            width=Width.MEDIUM,
            display_name="Encoding",
        ),
    )

    def configure(self, settings: Settings) -> None:
        name: str = settings["converter.encoding"]
        try:
            self._encoding = _known(name)
        except LookupError:
            legal = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9+.:_-]*", name) is not None
            reason = UnsupportedCharsetException(name) if legal else IllegalCharsetNameException(name)
            raise SerializationException(f"Unsupported encoding {name}") from reason
        self._errors = "replace" if self.like_kafka else "strict"

    @property
    def reads_utf8(self) -> bool:
        return self._encoding == "utf-8"

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        if value is None:
            return None
        text = java_text(value)
        try:
            if self._encoding == "utf-16":  # Java writes it big-endian, with a mark before anything
                return codecs.BOM_UTF16_BE + text.encode("utf-16-be", self._errors) if text else b""
            encoding = "utf-32-be" if self._encoding == "utf-32" else self._encoding
            return text.encode(encoding, self._errors)
        except UnicodeError as error:
            raise DataException(f"Failed to serialize to a string: {error}") from error

    def to_connect(self, topic: str, raw: bytes | None) -> SchemaAndValue:
        if raw is None:
            return SchemaAndValue(_SCHEMA, None)
        encoding = self._encoding
        if encoding == "utf-16" and not raw.startswith((codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)):
            encoding = "utf-16-be"
        if encoding == "utf-32" and not raw.startswith((codecs.BOM_UTF32_BE, codecs.BOM_UTF32_LE)):
            encoding = "utf-32-be"
        try:
            if encoding == "utf-8" and self.like_kafka:
                return SchemaAndValue(_SCHEMA, decode_like_java(raw))
            return SchemaAndValue(_SCHEMA, bytes(raw).decode(encoding, self._errors))
        except UnicodeError as error:
            raise DataException(f"Failed to deserialize string: {error}") from error


def _known(name: str) -> str:
    """Python's name of a character set; LookupError for names of what makes bytes of bytes, such as hex."""
    found = codecs.lookup(name)
    "".encode(name)
    return found.name
