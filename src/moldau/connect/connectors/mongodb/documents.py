"""Records as documents, and the addresses of servers.

Invariant: pure but for the library; a record that is no document is a DataException.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from moldau.connect.connectors.libraries import library
from moldau.connect.data.schema import Struct
from moldau.connect.data.types import Instant
from moldau.connect.errors import ConfigException, DataException
from moldau.connect.records import SinkRecord

EXTRA = "connect-mongodb"


def hosts_of(uri: str) -> list[str]:
    parts = urlsplit(uri)
    if parts.scheme not in ("mongodb", "mongodb+srv") or not parts.netloc:
        raise ConfigException("Invalid value for configuration connection.uri: it is written mongodb://host")
    places = parts.netloc.rpartition("@")[2].split(",")
    return [
        place.rpartition(":")[0] if ":" in place and not place.endswith("]") else place for place in places
    ]


def files_of(uri: str) -> list[str]:
    """Files that an address names, for certificates."""
    return [value for name, value in parse_qsl(urlsplit(uri).query) if name.lower().endswith("file")]


def document_of(value: object) -> dict[str, Any]:
    """The value of a record: a struct, a JSON object, or a text of JSON."""
    if isinstance(value, Struct | dict):
        found = plain(value)
        assert isinstance(found, dict)
        return found
    if isinstance(value, str | bytes):
        try:
            parsed = library("bson.json_util", EXTRA).loads(value)
        except (ValueError, TypeError, UnicodeDecodeError) as error:
            raise DataException("A text that becomes a document has to be JSON") from error
        if isinstance(parsed, dict):
            return parsed
    raise DataException("The value of a record has to be a struct or a JSON object to become a document")


def plain(value: object) -> Any:
    """A value of Connect as one of MongoDB."""
    if isinstance(value, Struct):
        return {field.name: plain(item) for field, item in value.items()}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Decimal):
        return library("bson.decimal128", EXTRA).Decimal128(value)
    if isinstance(value, Instant):
        return value.datetime()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if value is None or isinstance(value, bool | str):
        return value
    return int(value) if isinstance(value, int) else float(value) if isinstance(value, float) else value


def id_of(record: SinkRecord, strategy: str, document: Mapping[str, Any] | None) -> Any:
    """The ``_id`` of a record's document: what it is written under again, however often it comes."""
    topic = record.original_topic or record.topic
    place = f"{topic}#{record.original_partition or record.partition or 0}#{record.offset}"
    match strategy:
        case "kafkametadata":
            return place
        case "providedinvalue":
            if document is None or "_id" not in document:
                raise DataException("The value has no _id")
            return document["_id"]
        case "providedinkey":
            key = _key(record)
            if not isinstance(key, dict) or "_id" not in key:
                raise DataException("The key has no _id")
            return key["_id"]
        case "fullkey":
            return _required_key(record)
    if record.key is not None:
        key = _key(record)
        return key["_id"] if isinstance(key, dict) and "_id" in key else key
    return document["_id"] if document is not None and "_id" in document else place


def _key(record: SinkRecord) -> Any:
    key = record.key
    if isinstance(key, str) and key.startswith("{"):
        try:
            return library("bson.json_util", EXTRA).loads(key)
        except ValueError:
            return key
    return plain(key)


def _required_key(record: SinkRecord) -> Any:
    if record.key is None:
        raise DataException("The record has no key")
    return _key(record)


def json_text(value: Any) -> str:
    options = library("bson.json_util", EXTRA)
    found: str = options.dumps(value, json_options=options.RELAXED_JSON_OPTIONS, ensure_ascii=False)
    return found


def token_text(token: Any) -> str:
    return json.dumps(token, separators=(",", ":"))
