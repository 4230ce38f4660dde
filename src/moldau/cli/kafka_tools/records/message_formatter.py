"""From records to what ``kafka-console-consumer`` prints, by the rules of Kafka's message formatters.

Pure. Without a deserializer values are printed as they are, even if they are no text.
"""

import struct
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.client.consumer.fetched import ConsumerRecord
from moldau.protocol.records import TimestampType

_PACKAGE = "org.apache.kafka.tools.consumer"
DEFAULT_FORMATTER = f"{_PACKAGE}.DefaultMessageFormatter"
_SILENT = f"{_PACKAGE}.NoOpMessageFormatter"
#: The logging formatter prints like the default one; its additional log is not written here.
_PLAIN = (DEFAULT_FORMATTER, f"{_PACKAGE}.LoggingMessageFormatter")
#: Formatters for internal topics, and the option of ``kafka-dump-log`` that shows the same records.
_OF_INTERNAL_TOPICS = {
    f"{_PACKAGE}.OffsetsMessageFormatter": "offsets-decoder",
    f"{_PACKAGE}.GroupMetadataMessageFormatter": "offsets-decoder",
    f"{_PACKAGE}.TransactionLogMessageFormatter": "transaction-log-decoder",
    f"{_PACKAGE}.ShareGroupStateMessageFormatter": "share-group-state-decoder",
}
_SERIALIZATION = "org.apache.kafka.common.errors.SerializationException"

Format = Callable[[ConsumerRecord], bytes]
Deserializer = Callable[[bytes], bytes]


def formatter(name: str, properties: Mapping[str, str]) -> tuple[Format, list[str]]:
    """The function that formats a record, and complaints about the properties; ToolError for a bad name."""
    if name in _PLAIN:
        made, complaints = DefaultFormatter.configured(properties)
        return made.format, complaints
    if name == _SILENT:
        return (lambda record: b""), []
    if name in _OF_INTERNAL_TOPICS:
        instead = f"'moldau kafka-dump-log --{_OF_INTERNAL_TOPICS[name]}' shows such records"
        raise ToolError("java.lang.ClassNotFoundException", f"{name} is not supported: {instead}")
    raise ToolError("java.lang.ClassNotFoundException", name)


@dataclass(frozen=True, slots=True)
class DefaultFormatter:
    print_timestamp: bool = False
    print_partition: bool = False
    print_offset: bool = False
    print_delivery: bool = False
    print_epoch: bool = False
    print_headers: bool = False
    print_key: bool = False
    print_value: bool = True
    key_separator: bytes = b"\t"
    line_separator: bytes = b"\n"
    headers_separator: bytes = b","
    null_literal: bytes = b"null"
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None
    headers_deserializer: Deserializer | None = None

    @classmethod
    def configured(cls, properties: Mapping[str, str]) -> tuple["DefaultFormatter", list[str]]:
        """From the properties of ``--formatter-property``, with complaints about unknown deserializers."""

        def flag(name: str, default: bool = False) -> bool:
            return properties[name].strip().lower() == "true" if name in properties else default

        def text(name: str, default: bytes) -> bytes:
            return properties[name].encode("utf-8", "surrogateescape") if name in properties else default

        complaints: list[str] = []

        def deserializer(name: str) -> Deserializer | None:
            wanted = properties.get(name)
            if not wanted:
                return None
            found = _DESERIALIZERS.get(wanted.rsplit(".", 1)[-1])
            if found is None:
                complaints.append(f"Unable to instantiate a deserializer from {wanted}")
            return found

        made = cls(
            print_timestamp=flag("print.timestamp"),
            print_partition=flag("print.partition"),
            print_offset=flag("print.offset"),
            print_delivery=flag("print.delivery"),
            print_epoch=flag("print.epoch"),
            print_headers=flag("print.headers"),
            print_key=flag("print.key"),
            print_value=flag("print.value", True),
            key_separator=text("key.separator", b"\t"),
            line_separator=text("line.separator", b"\n"),
            headers_separator=text("headers.separator", b","),
            null_literal=text("null.literal", b"null"),
            key_deserializer=deserializer("key.deserializer"),
            value_deserializer=deserializer("value.deserializer"),
            headers_deserializer=deserializer("headers.deserializer"),
        )
        return made, complaints

    def format(self, record: ConsumerRecord) -> bytes:
        """The columns that were asked for, in Kafka's order."""
        columns: list[bytes] = []
        if self.print_timestamp:
            kind = "LogAppendTime" if record.timestamp_type is TimestampType.LOG_APPEND_TIME else "CreateTime"
            columns.append(f"{kind}:{record.timestamp}".encode())
        if self.print_partition:
            columns.append(b"Partition:%d" % record.partition)
        if self.print_offset:
            columns.append(b"Offset:%d" % record.offset)
        if self.print_delivery:
            columns.append(b"Delivery:NOT_PRESENT")  # known in share groups only
        if self.print_epoch:
            columns.append(b"Epoch:NOT_PRESENT")  # Kafka's tool does not hand it to its formatter
        if self.print_headers:
            columns.append(self._headers(record.headers))
        if self.print_key:
            columns.append(self._field(record.key, self.key_deserializer))
        if self.print_value:
            columns.append(self._field(record.value, self.value_deserializer))
        return self.key_separator.join(columns) + self.line_separator if columns else b""

    def _headers(self, headers: Iterable[tuple[str, bytes | None]]) -> bytes:
        shown = [
            name.encode("utf-8", "surrogateescape") + b":" + self._field(value, self.headers_deserializer)
            for name, value in headers
        ]
        return self.headers_separator.join(shown) if shown else b"NO_HEADERS"

    def _field(self, data: bytes | None, deserializer: Deserializer | None) -> bytes:
        if data is None:
            return self.null_literal
        return data if deserializer is None else deserializer(data)


# Deserializers -----------------------------------------------------------------------------------------


def _fixed(name: str, layout: str) -> Deserializer:
    unpacker = struct.Struct(layout)

    def deserialize(data: bytes) -> bytes:
        if len(data) != unpacker.size:
            raise ToolError(_SERIALIZATION, f"Size of data received by {name} is not {unpacker.size}")
        return str(unpacker.unpack(data)[0]).encode()

    return deserialize


def _boolean(data: bytes) -> bytes:
    if data not in (b"\0", b"\1"):
        raise ToolError(_SERIALIZATION, "Size of data received by BooleanDeserializer is not 1")
    return b"true" if data == b"\1" else b"false"


def _uuid(data: bytes) -> bytes:
    try:
        return str(uuid.UUID(data.decode("utf-8"))).encode()
    except ValueError:
        raise ToolError(_SERIALIZATION, "Error parsing data into UUID") from None


#: By the last part of their names in Kafka. Bytes are printed as they are, where Java prints an address.
_DESERIALIZERS: dict[str, Deserializer] = {
    "StringDeserializer": bytes,
    "ByteArrayDeserializer": bytes,
    "BytesDeserializer": bytes,
    "ByteBufferDeserializer": bytes,
    "ShortDeserializer": _fixed("ShortDeserializer", ">h"),
    "IntegerDeserializer": _fixed("IntegerDeserializer", ">i"),
    "LongDeserializer": _fixed("LongDeserializer", ">q"),
    "FloatDeserializer": _fixed("FloatDeserializer", ">f"),
    "DoubleDeserializer": _fixed("DoubleDeserializer", ">d"),
    "BooleanDeserializer": _boolean,
    "UUIDDeserializer": _uuid,
}
