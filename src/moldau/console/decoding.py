"""Keys and values as people read them: decoded by the schema that they name, or by a guess.

Invariant: decoding never fails and never runs anything: what cannot be decoded is shown as bytes, with the
reason. What is decoded is JSON: mappings, lists, texts, numbers, true, false and null. A schema is asked for
once, and one that cannot be had is not asked for again within a minute; nor is anything asked of a registry
that has just not answered.
"""

import base64
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moldau.client.registry.schema_registry import RegistryClient, RegistryError
from moldau.schemas.schema_id import InvalidFrame, SchemaRef, header_of, read_prefix, schema_header
from moldau.serde.errors import SerdeError

#: Larger values are not parsed as JSON, but shown as text.
MAX_JSON_BYTES = 2 * 1024 * 1024
_MAX_FAILED = 1_000
_FAILED_MS = 60_000
#: Who does not answer takes a timeout for each question: one is enough for a page of records.
_AWAY_MS = 10_000
#: Deeper values are shown as text: whoever writes them out again needs room on the stack, too.
_MAX_DEPTH = 200
_HEX_BYTES = 256


@dataclass(frozen=True, slots=True)
class Decoded:
    """A value, how it was read (``avro``, ``json``, ``text``, ``bytes`` …), and why not better."""

    value: Any
    form: str
    schema: str = ""
    problem: str = ""


class Decoder:
    """Decodes by the registry where there is one; ``now_ms`` tells the time."""

    def __init__(self, registry: RegistryClient | None, now_ms: Callable[[], int]) -> None:
        self._registry = registry
        self._now_ms = now_ms
        self._readers: dict[str, Any] = {}
        self._failed: dict[SchemaRef, tuple[int, str]] = {}
        #: When the registry did not answer, and what was said about it.
        self._away: tuple[int, str] | None = None

    def decode(self, data: bytes | None, headers: Any, *, topic: str, is_key: bool) -> Decoded:
        """May ask the registry, which blocks: to be called in a thread where there is one."""
        if data is None:
            return Decoded(None, "null")
        problem = ""
        ref = schema_of(data, headers, is_key)
        if ref is not None and self._registry is not None:
            found = self._by_schema(self._registry, ref, data, headers, topic, is_key)
            if isinstance(found, Decoded):
                return found
            problem = found
        return guess(data, problem)

    def _by_schema(
        self, registry: RegistryClient, ref: SchemaRef, data: bytes, headers: Any, topic: str, is_key: bool
    ) -> Decoded | str:
        failed = self._failed.get(ref)
        if failed is not None and self._now_ms() - failed[0] < _FAILED_MS:
            return failed[1]
        if self._away is not None and self._now_ms() - self._away[0] < _AWAY_MS:
            return self._away[1]
        try:
            found = (
                registry.by_id(ref.schema_id)
                if ref.schema_id is not None
                else registry.by_guid(ref.guid or "")
            )
        except RegistryError as error:
            if not error.status:
                self._away = self._now_ms(), error.message
            if len(self._failed) >= _MAX_FAILED:
                self._failed.clear()
            self._failed[ref] = (self._now_ms(), error.message)
            return error.message
        try:
            value = plain(self._reader(found.schema_type, is_key).deserialize(topic, data, headers))
        except (SerdeError, ImportError) as error:
            return str(error)
        except RecursionError:
            return "it is nested too deep to be shown"
        return Decoded(value, found.schema_type.lower(), str(ref))

    def _reader(self, schema_type: str, is_key: bool) -> Any:
        name = f"{schema_type} {is_key}"
        if name not in self._readers:
            self._readers[name] = _deserializer(schema_type, self._registry, is_key)
        return self._readers[name]


def _deserializer(schema_type: str, registry: RegistryClient | None, is_key: bool) -> Any:
    """The deserializers are imported when a record needs them."""
    from moldau.serde.options import ReaderOptions

    assert registry is not None
    options = ReaderOptions(is_key=is_key, validate=False, as_dict=True)
    match schema_type:
        case "AVRO":
            from moldau.serde.avro import AvroDeserializer

            return AvroDeserializer(registry, options=options)
        case "JSON":
            from moldau.serde.json_schema import JsonDeserializer

            return JsonDeserializer(registry, options=options)
        case _:
            from moldau.serde.protobuf import ProtobufDeserializer

            return ProtobufDeserializer(registry, options=options)


def schema_of(data: bytes, headers: Any, is_key: bool) -> SchemaRef | None:
    """The schema that a header or the first bytes name; None where they name none."""
    named = header_of(headers, schema_header(is_key))
    try:
        return read_prefix(named if named is not None else data)[0]
    except InvalidFrame:
        return None


def guess(data: bytes, problem: str = "") -> Decoded:
    """JSON where it is, else text, else a number of four or eight bytes, else bytes."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    if text is not None and _is_text(text):
        if text[:1] in "{[" and len(data) <= MAX_JSON_BYTES:
            try:
                return Decoded(finite(json.loads(text)), "json", problem=problem)
            except (ValueError, RecursionError):
                pass
        return Decoded(text, "text", problem=problem)
    if len(data) in (4, 8):
        return Decoded(int.from_bytes(data, "big", signed=True), f"int{len(data) * 8}", problem=problem)
    return Decoded(_hex(data), "bytes", problem=problem)


def _is_text(text: str) -> bool:
    """Whether most of it can be read; control characters are a sign of bytes."""
    controls = sum(1 for character in text[:1000] if character < " " and character not in "\t\n\r")
    return controls == 0


def _hex(data: bytes) -> str:
    more = f" … {len(data):,} bytes" if len(data) > _HEX_BYTES else ""
    return data[:_HEX_BYTES].hex(" ") + more


def plain(value: Any, depth: int = 0) -> Any:
    """What a deserializer made, as JSON, all else as text. RecursionError where it is too deep."""
    if depth > _MAX_DEPTH:
        raise RecursionError
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, Mapping):
        return {str(name): plain(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each, depth + 1) for each in value]
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)


def finite(value: Any, depth: int = 0) -> Any:
    """JSON has no NaN and no infinity, though Python reads them. RecursionError when too deep."""
    if depth > _MAX_DEPTH:
        raise RecursionError
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, list):
        return [finite(each, depth + 1) for each in value]
    if isinstance(value, dict):
        return {name: finite(each, depth + 1) for name, each in value.items()}
    return value


def shown(value: Any, *, indent: int | None = None) -> str:
    """A decoded value as text: a text as it is, all else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)
