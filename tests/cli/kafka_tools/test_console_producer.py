"""kafka-console-producer: options, what arrives, what is told of what does not."""

# ruff: noqa: E501 -- a message of Kafka's tools stands in one line, as long as it is

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.cli.kafka_tools.console_producer import TOOL, producer_properties
from moldau.testing import Broker


def properties(*words: str) -> dict[str, str]:
    return producer_properties(TOOL.options.parse(words))


def test_options_that_are_settings(tmp_path: Path) -> None:
    assert properties() == {
        "acks": "-1",
        "linger.ms": "1000",
        "batch.size": "16384",
        "buffer.memory": "33554432",
        "max.block.ms": "60000",
    }
    file = tmp_path / "producer.properties"
    file.write_text("acks=0\nlinger.ms=3\nclient.id=me\n")
    found = properties(
        "--command-config", str(file), "--command-property", "linger.ms=4", "--request-timeout-ms", "9"
    )
    assert (found["acks"], found["linger.ms"], found["client.id"]) == ("0", "4", "me")
    assert found["request.timeout.ms"] == "9"
    assert properties("--timeout", "7", "--command-property", "linger.ms=4")["linger.ms"] == "7"
    assert properties("--sync")["linger.ms"] == "0"
    assert properties("--max-partition-memory-bytes", "5")["batch.size"] == "5"
    assert properties("--compression-codec")["compression.type"] == "gzip"
    assert properties("--compression-codec", "lz4")["compression.type"] == "lz4"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--property", "a=b", "--reader-property", "c=d"), "Options --reader-property and --property cannot be specified together."),
        (("--producer-property", "a=b", "--command-property", "c=d"), "Options --command-property and --producer-property cannot be specified together."),
        (("--batch-size", "x"), "Cannot parse argument 'x' of option batch-size"),
        (("--line-reader", "foo"), "java.lang.ClassNotFoundException: foo"),
        (("--compression-codec", "foo"), "org.apache.kafka.common.config.ConfigException: Invalid value foo for configuration compression.type: String must be one of: none, gzip, snappy, lz4, zstd"),
        (("--request-required-acks", "5"), "org.apache.kafka.common.config.ConfigException: Invalid value 5 for configuration acks: String must be one of: all, -1, 0, 1"),
        (("--command-config", "/none"), "java.nio.file.NoSuchFileException: /none"),
    ],
)  # fmt: skip
def test_complaints(tool: Callable[..., Any], words: tuple[str, ...], message: str) -> None:
    result = tool("kafka-console-producer", "--bootstrap-server", "127.0.0.1:1", "--topic", "t", *words)
    assert result.errors[0] == message
    assert result.code == 1


def test_addresses(tool: Callable[..., Any]) -> None:
    missing = tool("kafka-console-producer", "--topic", "t")
    assert missing.errors[0] == "Error while validating the bootstrap address"
    wrong = tool("kafka-console-producer", "--topic", "t", "--bootstrap-server", "foo")
    assert wrong.errors[0] == "Please provide valid host:port like host1:9091,host2:9092"
    silent = tool("kafka-console-producer", "--topic", "t", "--bootstrap-server", "127.0.0.1:1")
    assert silent.code == 1
    assert "hint: nothing listens at 127.0.0.1:1" in silent.stderr


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_arrive_as_they_were_written(tool_at: Callable[..., Any], broker: Broker, codec: str) -> None:
    words = ("--compression-codec", codec, "--reader-property", "parse.key=true")
    stdin = b"".join(b"k%d\tv%d\n" % (index, index) for index in range(500)) + b"\xff\tlast"
    assert tool_at("kafka-console-producer", "--topic", "t", *words, stdin=stdin).code == 0
    records = broker.records("t")
    assert len(records) == 501
    assert (records[7].key, records[7].value) == (b"k7", b"v7")
    assert (records[-1].key, records[-1].value) == (b"\xff", b"last")


def test_what_was_read_before_a_bad_line_is_written(tool_at: Callable[..., Any], broker: Broker) -> None:
    words = ("--topic", "t", "--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    result = tool_at("kafka-console-producer", *words, stdin=b"a:1\nb:2\nbad\nc:3\n")
    assert result.code == 1
    assert result.errors == [
        "org.apache.kafka.common.KafkaException: No key separator found on line number 3: 'bad'"
    ]
    assert [record.value for record in broker.records("t")] == [b"1", b"2"]


def test_a_record_that_is_too_large_is_told_and_the_rest_follows(
    tool_at: Callable[..., Any], broker: Broker
) -> None:
    stdin = b"a\n" + b"x" * 2_000_000 + b"\nb\n"
    result = tool_at("kafka-console-producer", "--topic", "t", stdin=stdin)
    assert result.code == 0
    assert result.errors[0].endswith(
        "Error when sending message to topic t with key: null, value: 2000000 bytes with error:"
    )
    assert result.errors[1] == (
        "org.apache.kafka.common.errors.RecordTooLargeException: The message is 2000088 bytes when serialized "
        "which is larger than 1048576, which is the value of the max.request.size configuration."
    )
    assert [record.value for record in broker.records("t")] == [b"a", b"b"]


def test_a_record_that_the_broker_refuses(tool_at: Callable[..., Any], broker: Broker) -> None:
    tool_at("kafka-topics", "--create", "--topic", "compacted", "--config", "cleanup.policy=compact")
    result = tool_at("kafka-console-producer", "--topic", "compacted", stdin=b"no key\n")
    assert result.code == 0
    assert "Error when sending message to topic compacted with key: null, value: 6 bytes" in result.errors[0]
    assert "InvalidRecordException" in result.errors[1]
    synced = tool_at("kafka-console-producer", "--topic", "compacted", "--sync", stdin=b"no key\n")
    assert synced.code == 1
    assert synced.errors[0].startswith("java.util.concurrent.ExecutionException: org.apache.kafka.common.Inv")
    assert broker.records("compacted") == []
