"""Kafka's own serializers, those without a schema: texts, numbers, bytes, and what people write themselves.

Invariant: the bytes of ``org.apache.kafka.common.serialization``: big-endian numbers, UTF-8. They fit where
the others do: ``serializer(value, context)`` and ``serialize(topic, value)``. What is None stays None.
"""

import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

from moldau.serde.errors import SerdeError, shown


class PlainSerde:
    """One pair of functions; the base for one's own (see docs/serializers.md)."""

    def __init__(self, name: str, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]) -> None:
        self._name = name
        self._encode = encode
        self._decode = decode

    def serialize(self, topic: str, value: Any, headers: Any = None) -> bytes | None:
        if value is None:
            return None
        try:
            return self._encode(value)
        except (struct.error, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise SerdeError(f"{shown(value)} cannot be written as {self._name}: {error}.") from error

    def deserialize(self, topic: str, data: bytes | None, headers: Any = None) -> Any:
        if data is None:
            return None
        try:
            return self._decode(data)
        except (struct.error, TypeError, ValueError, LookupError) as error:
            raise SerdeError(f"{len(data)} bytes cannot be read as {self._name}: {error}.") from error

    def __reduce__(self) -> Any:
        """Those of this module are pickled by their name, and stay themselves in another process."""
        for name, each in globals().items():
            if each is self:
                return name
        return object.__new__, (type(self),), vars(self)

    @property
    def serializer(self) -> Callable[..., bytes | None]:
        """For SerializingProducer."""
        return lambda value, ctx=None: self.serialize("", value)

    @property
    def deserializer(self) -> Callable[..., Any]:
        """For DeserializingConsumer."""
        return lambda data, ctx=None: self.deserialize("", data)


def _number(name: str, form: str) -> PlainSerde:
    shape = struct.Struct(form)

    def encode(value: Any) -> bytes:
        if isinstance(value, bool):
            raise TypeError("a truth value is no number")
        return shape.pack(value)

    return PlainSerde(name, encode, lambda data: shape.unpack(data)[0])


def _boolean(value: Any) -> bytes:
    if not isinstance(value, bool):
        raise TypeError("it is no truth value")
    return b"\x01" if value else b"\x00"


def _as_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("it is no bytes")
    return bytes(value)


STRING = PlainSerde("a string", lambda value: str.encode(value), lambda data: bytes(data).decode())
BYTES = PlainSerde("bytes", _as_bytes, bytes)
SHORT = _number("a short", ">h")
INTEGER = _number("an integer", ">i")
LONG = _number("a long", ">q")
FLOAT = _number("a float", ">f")
DOUBLE = _number("a double", ">d")
BOOLEAN = PlainSerde("a boolean", _boolean, lambda data: {b"\x00": False, b"\x01": True}[bytes(data)])
UUIDS = PlainSerde("a uuid", lambda value: str(UUID(str(value))).encode(), lambda data: UUID(data.decode()))
