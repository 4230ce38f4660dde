"""kafka-console-consumer: options, ends, errors; its output is in test_transcripts and test_message_formatter."""

# ruff: noqa: E501 -- a message of Kafka's tools stands in one line, as long as it is

import asyncio
import io
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau.cli.kafka_tools.console_consumer import (
    TOOL,
    Printer,
    _until_signal,
    consumer_properties,
    parse_start,
)
from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.cli.kafka_tools.framework.tool import Console
from moldau.client.consumer.consumer import BEGINNING, END, at_offset
from moldau.client.consumer.fetched import ConsumerRecord
from moldau.protocol.records import TimestampType
from moldau.testing import Broker

SERVER = ("--bootstrap-server", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--topic", "x", "--include", "y"), "Exactly one of the following arguments is required: [topic], [include]"),
        (("--include", "y", "--partition", "1"), "The topic is required when partition is specified."),
        (("--topic", "x", "--partition", "0", "--from-beginning", "--offset", "3"), "Options from-beginning and offset cannot be specified together."),
        (("--topic", "x", "--partition", "0", "--group", "g"), "Options group and partition cannot be specified together."),
        (("--topic", "x", "--group", "g", "--command-property", "group.id=h"), "The group ids provided in different places (directly using '--group', via '--consumer-property', or via '--consumer.config') do not match. Detected group ids: 'g', 'h'"),
        (("--topic", "x", "--property", "a=b", "--formatter-property", "c=d"), "Options --property and --formatter-property cannot be specified together."),
        (("--topic", "x", "--consumer-property", "a=b", "--command-property", "c=d"), "Options --consumer-property and --command-property cannot be specified together."),
        (("--topic", "x", "--partition", "0", "--offset", "-3"), "The provided offset value '-3' is incorrect. Valid values are 'earliest', 'latest', or a non-negative long."),
        (("--topic", "x", "--formatter", "no.such.Class"), "no.such.Class"),
        (("--topic", "x", "--from-beginning", "--command-property", "auto.offset.reset=latest"), "Can't simultaneously specify --from-beginning and 'auto.offset.reset=latest', please remove one option"),
    ],
)  # fmt: skip
def test_complaints(tool: Callable[..., Any], words: tuple[str, ...], message: str) -> None:
    result = tool("kafka-console-consumer", *SERVER, *words)
    assert result.errors[0] == message
    assert result.code == 1


def test_no_server(tool: Callable[..., Any]) -> None:
    assert (
        tool("kafka-console-consumer", "--topic", "x").errors[0]
        == 'Missing required argument "[bootstrap-server]"'
    )
    silent = tool("kafka-console-consumer", *SERVER, "--topic", "x")
    assert silent.errors[0].startswith("hint: nothing listens at 127.0.0.1:1")
    assert silent.errors[1] == "Processed a total of 0 messages"
    assert silent.code == 1


def test_settings_and_starts() -> None:
    console = Console(io.BytesIO(), io.BytesIO(), io.BytesIO())

    def properties(*words: str) -> dict[str, str]:
        return consumer_properties(TOOL.options.parse(words), console)

    assert properties() == {"auto.offset.reset": "latest", "isolation.level": "read_uncommitted"}
    assert properties("--from-beginning")["auto.offset.reset"] == "earliest"
    assert (
        properties("--command-property", "isolation.level=read_committed")["isolation.level"]
        == "read_committed"
    )

    def start(*words: str) -> Any:
        return parse_start(TOOL.options.parse(words))

    assert start() is None
    assert start("--partition", "0") == END
    assert start("--partition", "0", "--from-beginning") == BEGINNING
    assert start("--partition", "0", "--offset", "EARLIEST") == BEGINNING
    assert start("--partition", "0", "--offset", "42") == at_offset(42)


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (("--isolation-level", "foo"), "org.apache.kafka.common.config.ConfigException: Invalid value foo for configuration isolation.level: String must be one of: read_committed, read_uncommitted"),
        (("--max-messages", "abc"), "Cannot parse argument 'abc' of option max-messages"),
    ],
)  # fmt: skip
def test_settings_that_are_refused(tool_at: Callable[..., Any], words: tuple[str, ...], cause: str) -> None:
    result = tool_at("kafka-console-consumer", "--topic", "t", *words)
    assert result.errors[-1] == cause
    assert result.code == 1


def test_a_value_that_cannot_be_printed(tool_at: Callable[..., Any], broker: Broker) -> None:
    for value in (b"abc", b"\0\0\0\7"):
        broker.produce("t", value)
    words = (
        "--topic",
        "t",
        "--from-beginning",
        "--max-messages",
        "2",
        "--value-deserializer",
        "IntegerDeserializer",
    )
    failed = tool_at("kafka-console-consumer", *words)
    assert failed.code == 1
    assert failed.errors == [
        "Processed a total of 1 messages",
        "[main] ERROR org.apache.kafka.tools.consumer.ConsoleConsumer - Unknown error when running consumer: ",
        "org.apache.kafka.common.errors.SerializationException: Size of data received by IntegerDeserializer is not 4",
    ]
    skipped = tool_at("kafka-console-consumer", *words, "--skip-message-on-error")
    assert (skipped.code, skipped.lines) == (0, ["7"])
    assert "Error processing message, skipping this message: " in skipped.errors[0]


def test_ends(tool_at: Callable[..., Any], broker: Broker) -> None:
    broker.produce("t", b"v")
    none = tool_at("kafka-console-consumer", "--topic", "t", "--max-messages", "0", "--enable-systest-events")
    assert (none.lines, none.errors) == (["shutdown_complete"], ["Processed a total of 0 messages"])
    missing = tool_at("kafka-console-consumer", "--topic", "t", "--partition", "7", "--timeout-ms", "50")
    assert missing.errors[-2:] == [
        "org.apache.kafka.common.errors.TimeoutException",
        "Processed a total of 0 messages",
    ]
    bad = tool_at("kafka-console-consumer", "--topic", "a b", "--timeout-ms", "50")
    assert bad.errors[1] == "org.apache.kafka.common.errors.InvalidTopicException: Invalid topics: [a b]"
    assert bad.code == 0


def test_all_partitions_are_read(tool_at: Callable[..., Any], broker: Broker) -> None:
    tool_at("kafka-topics", "--create", "--topic", "wide", "--partitions", "3")
    for partition in range(3):
        broker.produce("wide", b"v%d" % partition, partition=partition)
    result = tool_at("kafka-console-consumer", "--topic", "wide", "--from-beginning", "--max-messages", "3")
    assert sorted(result.lines) == ["v0", "v1", "v2"]


def test_a_deserializer_that_does_not_exist(tool_at: Callable[..., Any], broker: Broker) -> None:
    broker.produce("t", b"v")
    words = ("--topic", "t", "--from-beginning", "--max-messages", "1", "--value-deserializer", "foo")
    result = tool_at("kafka-console-consumer", *words)
    assert result.lines == ["v"]
    assert result.errors[0].endswith("Unable to instantiate a deserializer from foo")


def records(count: int) -> Iterator[ConsumerRecord]:
    for offset in range(count):
        yield ConsumerRecord("t", 0, offset, 0, TimestampType.CREATE_TIME, None, b"v", (), 0)


def test_the_printer_counts() -> None:
    console = Console(io.BytesIO(), io.BytesIO(), io.BytesIO())
    printer = Printer(lambda record: record.value or b"", console, most=3)
    assert printer.print(records(2))
    assert not printer.print(records(5))
    assert printer.count == 3

    def fail(record: ConsumerRecord) -> bytes:
        raise ToolError("x", "no")

    with pytest.raises(ToolError):
        Printer(fail, console).print(records(1))
    assert Printer(fail, console, skip_errors=True).print(records(2))


def test_a_reader_that_went_away() -> None:
    out, into = os.pipe()
    os.close(out)
    errors = io.BytesIO()
    with open(into, "wb", buffering=0) as gone:
        printer = Printer(lambda record: b"v\n", Console(io.BytesIO(), gone, errors))
        assert not printer.print(records(1))
    assert errors.getvalue() == b"Unable to write to standard out, closing consumer.\n"


def test_signals_end_the_reading() -> None:
    async def wait() -> None:
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)
        await asyncio.Event().wait()

    assert asyncio.run(_until_signal(wait())) == 128 + signal.SIGTERM
