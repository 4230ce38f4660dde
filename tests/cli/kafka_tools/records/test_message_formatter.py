"""What the console consumer prints for a record."""

import struct
import uuid

import pytest

from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.cli.kafka_tools.records.message_formatter import DEFAULT_FORMATTER, formatter
from moldau.client.consumer.fetched import ConsumerRecord
from moldau.protocol.records import TimestampType

PACKAGE = "org.apache.kafka.tools.consumer"
RECORD = ConsumerRecord(
    "orders", 0, 5, 1767225900000, TimestampType.CREATE_TIME, b"k5", b"v5", (("h1", b"a"), ("h2", None)), 3
)
BARE = ConsumerRecord("orders", 1, 6, 1, TimestampType.LOG_APPEND_TIME, None, None, (), 0)


def shown(record: ConsumerRecord = RECORD, **properties: str) -> bytes:
    names = {name.replace("_", "."): value for name, value in properties.items()}
    made, complaints = formatter(DEFAULT_FORMATTER, names)
    assert complaints == []
    return made(record)


def test_the_value_alone() -> None:
    assert shown() == b"v5\n"
    assert shown(BARE) == b"null\n"


def test_every_column_in_kafkas_order() -> None:
    everything = {
        f"print_{name}": "true"
        for name in ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key")
    }
    assert shown(**everything) == (
        b"CreateTime:1767225900000\tPartition:0\tOffset:5\tDelivery:NOT_PRESENT\tEpoch:NOT_PRESENT"
        b"\th1:a,h2:null\tk5\tv5\n"
    )
    assert shown(BARE, **everything) == (
        b"LogAppendTime:1\tPartition:1\tOffset:6\tDelivery:NOT_PRESENT\tEpoch:NOT_PRESENT"
        b"\tNO_HEADERS\tnull\tnull\n"
    )


def test_separators_and_the_word_for_null() -> None:
    assert shown(print_key="true", key_separator=" => ", line_separator="|") == b"k5 => v5|"
    assert shown(print_headers="true", headers_separator=";", null_literal="NIL") == b"h1:a;h2:NIL\tv5\n"
    assert shown(print_value="false", print_key="true") == b"k5\n"
    assert shown(print_value="false") == b""


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("StringDeserializer", b"x\xff", b"x\xff\n"),
        ("ByteArrayDeserializer", b"x", b"x\n"),
        ("ShortDeserializer", struct.pack(">h", -2), b"-2\n"),
        ("IntegerDeserializer", struct.pack(">i", -7), b"-7\n"),
        ("LongDeserializer", struct.pack(">q", 1 << 40), b"1099511627776\n"),
        ("DoubleDeserializer", struct.pack(">d", 1.5), b"1.5\n"),
        ("BooleanDeserializer", b"\1", b"true\n"),
        ("UUIDDeserializer", str(uuid.UUID(int=5)).encode(), str(uuid.UUID(int=5)).encode() + b"\n"),
    ],
)
def test_deserializers(name: str, data: bytes, expected: bytes) -> None:
    full = f"org.apache.kafka.common.serialization.{name}"
    assert shown(RECORD._replace(value=data), value_deserializer=full) == expected


@pytest.mark.parametrize(
    "name", ["IntegerDeserializer", "LongDeserializer", "BooleanDeserializer", "UUIDDeserializer"]
)
def test_a_value_that_the_deserializer_cannot_read(name: str) -> None:
    with pytest.raises(ToolError) as error:
        shown(RECORD._replace(value=b"xyz"), value_deserializer=name)
    assert error.value.name.endswith("SerializationException")


def test_an_unknown_deserializer_is_complained_of_and_passed_over() -> None:
    made, complaints = formatter(DEFAULT_FORMATTER, {"value.deserializer": "foo"})
    assert complaints == ["Unable to instantiate a deserializer from foo"]
    assert made(RECORD) == b"v5\n"


def test_formatters_by_name() -> None:
    assert formatter(f"{PACKAGE}.NoOpMessageFormatter", {})[0](RECORD) == b""
    assert formatter(f"{PACKAGE}.LoggingMessageFormatter", {})[0](RECORD) == b"v5\n"
    with pytest.raises(ToolError, match="kafka-dump-log --offsets-decoder"):
        formatter(f"{PACKAGE}.OffsetsMessageFormatter", {})
    with pytest.raises(ToolError, match=r"^kafka\.tools\.DefaultMessageFormatter$"):
        formatter("kafka.tools.DefaultMessageFormatter", {})
