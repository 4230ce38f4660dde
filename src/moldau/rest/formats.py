"""The embedded formats of v2 and v3: what keys and values look like in JSON, and their media types.

Binary is Base64, JSON is JSON. The formats with a schema are here by name only; ``schema_formats`` knows how
they are written and read.

Pure. What does not fit is a ``ValueError``; no value is no bytes, both ways.
"""

import base64
import binascii
import json
from enum import Enum
from typing import Any

from moldau.web.json_text import parse


class Format(Enum):
    BINARY = "binary"
    JSON = "json"
    AVRO = "avro"
    JSONSCHEMA = "jsonschema"
    PROTOBUF = "protobuf"

    @property
    def media_type(self) -> str:
        return f"application/vnd.kafka.{self.value}.v2+json"

    @property
    def has_schema(self) -> bool:
        return self in SCHEMA_TYPES


#: The registry's words.
SCHEMA_TYPES = {Format.AVRO: "AVRO", Format.JSONSCHEMA: "JSON", Format.PROTOBUF: "PROTOBUF"}

V2 = "application/vnd.kafka.v2+json"
#: What every answer of v2 but records may be called.
V2_TYPES = (V2, "application/vnd.kafka+json", "application/json")
EMBEDDED_TYPES = tuple(each.media_type for each in Format)
BY_MEDIA_TYPE = {each.media_type: each for each in Format}
BY_NAME = {each.value: each for each in Format}
#: v3 writes them in capitals.
BY_TYPE = {each.name: each for each in Format}


def encode(form: Format, value: Any) -> bytes | None:
    """The bytes of a value in one of the two formats without a schema."""
    if value is None:
        return None
    if form is Format.BINARY:
        return _from_base64(value)
    try:
        return _dumps(value).encode()
    except UnicodeEncodeError:
        raise ValueError("a text has half a surrogate pair, which UTF-8 cannot write") from None


def json_text(form: Format, data: bytes | None) -> str:
    """The JSON that stands for data: its Base64, or itself, if it is JSON."""
    if data is None:
        return "null"
    if form is Format.BINARY:
        return f'"{base64.b64encode(data).decode("ascii")}"'
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8: {error.reason} at byte {error.start}") from None
    parse(text)
    return text


def header_text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode("ascii")


def header_value(value: Any) -> bytes | None:
    """The value of a record's header, which is Base64 in v3."""
    return None if value is None else _from_base64(value)


_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _from_base64(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError("binary data is a text in Base64")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("binary data is not in Base64") from None
