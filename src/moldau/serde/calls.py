"""How serializers and deserializers are called: by confluent-kafka's clients, and by anyone else.

Invariant: ``serializer(value, context)`` is what SerializingProducer calls and ``serialize(topic, value)``
what is called by hand; both come to the same. None is None, on both sides: a tombstone has no schema. What
is prepared for a topic or a schema is kept. Both may be shared by threads; two of them may prepare the same
thing at first.
"""

from collections.abc import Callable, MutableMapping, MutableSequence
from typing import Any, Protocol, TypeAlias

from moldau.client.registry.schema_registry import RegistryClient
from moldau.schemas.schema_id import (
    Headers,
    InvalidFrame,
    SchemaRef,
    header_of,
    read_indexes,
    read_prefix,
    schema_header,
)
from moldau.serde.errors import SerdeError, shown
from moldau.serde.options import ReaderOptions, WriterOptions, strategy_of

#: Compiled schemas are kept for so many topics, or ids; with more than that all are made again.
MAX_KEPT = 10_000
#: From a value to bytes; the headers are there to be added to.
Write: TypeAlias = Callable[[Any, Any], bytes]


class Context(Protocol):
    """What confluent-kafka's SerializationContext has; ``field`` is ``key`` or ``value``."""

    topic: Any
    field: Any
    headers: Any


class Serializer:
    """What the serializers share: they differ in what they prepare for a topic and a class of values."""

    def __init__(self, registry: RegistryClient | str, options: WriterOptions | None) -> None:
        self._registry = RegistryClient(registry) if isinstance(registry, str) else registry
        self._options = options or WriterOptions()
        self._strategy = strategy_of(self._options.subject_name)
        #: For values and for keys.
        self._ready: tuple[dict[tuple[str, type], Write], ...] = ({}, {})

    def __call__(self, value: Any, ctx: Context | None = None) -> bytes | None:
        if value is None:
            return None
        if ctx is None:
            return self._write("", value, self._options.is_key, None)
        return self._write(ctx.topic, value, ctx.field == "key", ctx.headers)

    def serialize(self, topic: str, value: Any, headers: Any = None) -> bytes | None:
        """The bytes of a value; ``headers`` are a list or a dict to put the id into, where it goes there."""
        return None if value is None else self._write(topic, value, self._options.is_key, headers)

    def for_topic(self, topic: str) -> Callable[[Any], bytes | None]:
        """A function of the value alone, as kafka-python and aiokafka take it (``value_serializer``)."""
        return lambda value: self.serialize(topic, value)

    def _write(self, topic: str, value: Any, is_key: bool, headers: Any) -> bytes:
        place = (topic, value.__class__)
        write = self._ready[is_key].get(place)
        if write is None:
            ready = self._ready[is_key]
            if len(ready) >= MAX_KEPT:
                ready.clear()
            write = ready[place] = self._prepared(topic, value.__class__, is_key)
        return write(value, headers)

    def _prepared(self, topic: str, cls: type, is_key: bool) -> Write:
        raise NotImplementedError


class Deserializer:
    """What the deserializers share."""

    def __init__(self, registry: RegistryClient | str, options: ReaderOptions | None) -> None:
        self._registry = RegistryClient(registry) if isinstance(registry, str) else registry
        self._options = options or ReaderOptions()
        self._strategy = strategy_of(self._options.subject_name)
        #: Whether data is read in the same way whatever topic it comes from.
        self._any_topic = not self._options.use_latest_version and not callable(self._options.subject_name)

    def __call__(self, data: bytes | None, ctx: Context | None = None) -> Any:
        if data is None:
            return None
        if ctx is None:
            return self._read("", data, self._options.is_key, None)
        return self._read(ctx.topic, data, ctx.field == "key", ctx.headers)

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = None) -> Any:
        """The value; ``headers`` are those of the record, where the id of the schema may be."""
        return None if data is None else self._read(topic, data, self._options.is_key, headers)

    def for_topic(self, topic: str) -> Callable[[bytes | None], Any]:
        return lambda data: self.deserialize(topic, data)

    def _read(self, topic: str, data: bytes, is_key: bool, headers: Headers) -> Any:
        raise NotImplementedError


def framed(prefix: bytes, is_key: bool, headers: Any) -> bytes:
    """Puts a prefix into the headers; returns what comes before the payload then, which is nothing."""
    put_header(headers, schema_header(is_key), prefix)
    return b""


def put_header(headers: object, name: str, value: bytes) -> None:
    """Sets a header in what the caller will send; there has to be something to set it in."""
    if isinstance(headers, MutableMapping):
        headers[name] = value
    elif isinstance(headers, MutableSequence):
        headers[:] = [each for each in headers if each[0] != name]
        headers.append((name, value))
    else:
        raise SerdeError(
            f"The id of the schema goes into a header, but the headers are {shown(headers)}: "
            "pass headers=[] (a list or a dict) with the record."
        )


def unframed(data: bytes, is_key: bool, headers: Headers) -> tuple[SchemaRef, bytes, int]:
    """Which schema, the bytes with the rest of the frame, and where in them it ended."""
    header = header_of(headers, schema_header(is_key))
    frame = data if header is None else header
    try:
        ref, position = read_prefix(frame)
    except InvalidFrame as error:
        raise SerdeError(str(error)) from None
    return ref, frame, position


def indexes_at(frame: bytes, position: int) -> tuple[tuple[int, ...], int]:
    """Which message of a Protobuf file, and where that ends."""
    try:
        return read_indexes(frame, position)
    except InvalidFrame as error:
        raise SerdeError(str(error)) from None


def names_schema(headers: Headers, is_key: bool) -> bool:
    """Whether the headers say which schema it is, in place of the data."""
    return bool(headers) and header_of(headers, schema_header(is_key)) is not None


def checked(data: object) -> bytes:
    if isinstance(data, bytes):
        return data
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    raise SerdeError(f"{shown(data)} are no bytes: pass the value of the record as it came.")
