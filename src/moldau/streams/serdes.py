"""``Serdes``: how keys and values of topics become Python values, and back.

Invariant: a serde has ``serialize(topic, value)`` and ``deserialize(topic, data)``; None stays None. What
needs an extra (Avro, Protobuf) is imported when it is asked for.
"""

import json
from collections.abc import Callable
from typing import Any

from moldau.serde import plain
from moldau.serde.options import ReaderOptions, WriterOptions
from moldau.serde.plain import PlainSerde
from moldau.streams.engine.records import Windowed, plain_key_bytes, time_bytes


class Serdes:
    """The serdes of a program. Everything that ``moldau.serde`` has can be used beside these."""

    @staticmethod
    def string() -> PlainSerde:
        return plain.STRING

    @staticmethod
    def bytes() -> PlainSerde:
        return plain.BYTES

    @staticmethod
    def integer() -> PlainSerde:
        return plain.INTEGER

    @staticmethod
    def long() -> PlainSerde:
        return plain.LONG

    @staticmethod
    def double() -> PlainSerde:
        return plain.DOUBLE

    @staticmethod
    def json(cls: type | None = None) -> PlainSerde:
        """JSON without a registry: dicts, or instances of a dataclass or a pydantic model."""
        if cls is None:
            return PlainSerde("JSON", _json_bytes, json.loads)
        from moldau.serde.json_models import from_json, to_json

        outward, inward = to_json(cls), from_json(cls)
        return PlainSerde(
            "JSON", lambda value: _json_bytes(outward(value)), lambda data: inward(json.loads(data))
        )

    @staticmethod
    def avro(registry: Any, schema: str | type | None = None, *, is_key: bool = False) -> "RegistrySerde":
        """Avro by a schema registry; ``schema`` is Avro's JSON, a dataclass or a pydantic model."""
        from moldau.serde.avro import AvroDeserializer, AvroSerializer

        return RegistrySerde(
            AvroSerializer(registry, schema, options=WriterOptions(is_key=is_key)),
            AvroDeserializer(registry, schema, options=ReaderOptions(is_key=is_key)),
        )

    @staticmethod
    def json_schema(
        registry: Any, schema: str | type | None = None, *, is_key: bool = False
    ) -> "RegistrySerde":
        """JSON by a schema registry."""
        from moldau.serde.json_schema import JsonDeserializer, JsonSerializer

        return RegistrySerde(
            JsonSerializer(registry, schema, options=WriterOptions(is_key=is_key)),
            JsonDeserializer(registry, schema, options=ReaderOptions(is_key=is_key)),
        )

    @staticmethod
    def protobuf(registry: Any, message: Any, *, is_key: bool = False) -> "RegistrySerde":
        """Protobuf by a schema registry; ``message`` is a generated class."""
        from moldau.serde.protobuf import ProtobufDeserializer, ProtobufSerializer

        return RegistrySerde(
            ProtobufSerializer(registry, message, options=WriterOptions(is_key=is_key)),
            ProtobufDeserializer(registry, message, options=ReaderOptions(is_key=is_key)),
        )

    @staticmethod
    def protobuf_rows(registry: Any, schema: str) -> "RegistrySerde":
        """Protobuf as dicts: written by the first message of a .proto text, read by what others wrote."""
        from google.protobuf.json_format import MessageToDict

        from moldau.serde.protobuf import ProtobufDeserializer, ProtobufSerializer

        class Rows(ProtobufDeserializer):
            def deserialize(self, *given: Any, **named: Any) -> Any:
                found = super().deserialize(*given, **named)
                return None if found is None else MessageToDict(found, preserving_proto_field_name=True)

        return RegistrySerde(ProtobufSerializer(registry, schema), Rows(registry))

    @staticmethod
    def time_windowed(inner: Any, size_ms: int) -> PlainSerde:
        """Keys of time windows as Kafka Streams writes them: the key and the start."""

        def decode(data: Any) -> Windowed:
            start = int.from_bytes(data[-8:], "big", signed=True)
            return Windowed(inner.deserialize("", data[:-8]), start, start + size_ms)

        return PlainSerde(
            "a windowed key", lambda key: inner.serialize("", key.key) + time_bytes(key.start), decode
        )

    @staticmethod
    def session_windowed(inner: Any) -> PlainSerde:
        """Keys of sessions as Kafka Streams writes them: the key, the end and the start."""

        def decode(data: Any) -> Windowed:
            end = int.from_bytes(data[-16:-8], "big", signed=True)
            return Windowed(
                inner.deserialize("", data[:-16]), int.from_bytes(data[-8:], "big", signed=True), end
            )

        return PlainSerde(
            "the key of a session",
            lambda key: inner.serialize("", key.key) + time_bytes(key.end) + time_bytes(key.start),
            decode,
        )


class RegistrySerde:
    """A serializer and a deserializer of ``moldau.serde`` together, for keys or for values."""

    def __init__(self, serializer: Any, deserializer: Any) -> None:
        self._serializer = serializer
        self._deserializer = deserializer

    def serialize(self, topic: str, value: Any) -> bytes | None:
        data: bytes | None = self._serializer.serialize(topic, value)
        return data

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        return self._deserializer.deserialize(topic, data)

    #: A store has no topic by which a registry could be asked.
    store_bytes: Callable[[Any], bytes] = staticmethod(plain_key_bytes)


def _json_bytes(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
