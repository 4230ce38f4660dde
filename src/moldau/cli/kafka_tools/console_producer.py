"""``moldau kafka-console-producer``: lines of standard input become records, as with Kafka's ConsoleProducer.

Invariant: a record that cannot be written is reported on standard error and the next one follows, unless
``--sync`` was given. Exit code 1 where a line cannot be parsed or nothing can be sent.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from moldau.cli.kafka_tools.framework.bootstrap import (
    CLUSTER_OPTIONS,
    open_cluster,
    read_properties,
    with_bootstrap_server,
)
from moldau.cli.kafka_tools.framework.client_settings import producer_options, serialized_size
from moldau.cli.kafka_tools.framework.exceptions import ToolError, exception_line, execution_lines
from moldau.cli.kafka_tools.framework.line_reader import LineReader, LineRecord, Lines
from moldau.cli.kafka_tools.framework.options import Given, Option, OptionError, Options, parse_pairs, require
from moldau.cli.kafka_tools.framework.standard_input import chunks
from moldau.cli.kafka_tools.framework.tool import Console, Tool
from moldau.cli.kafka_tools.get_offsets import check_addresses
from moldau.client.producer.accumulator import RecordMetadata
from moldau.client.producer.producer import Producer
from moldau.protocol.errors import ErrorCode, KafkaError

_CALLBACK = "org.apache.kafka.clients.producer.internals.ErrorLoggingCallback"
_READERS = ("org.apache.kafka.tools.LineMessageReader", "kafka.tools.ConsoleProducer$LineMessageReader")

#: Old name -> name, both of which may be given, but not together.
_DEPRECATED = {
    "property": "reader-property",
    "producer-property": "command-property",
    "producer.config": "command-config",
}

#: Options that are settings of the producer -> setting, and whether Kafka's default for the option is kept.
_SETTINGS = {
    "request-required-acks": ("acks", True),
    "timeout": ("linger.ms", True),
    "batch-size": ("batch.size", True),
    "max-partition-memory-bytes": ("batch.size", False),
    "max-memory-bytes": ("buffer.memory", True),
    "max-block-ms": ("max.block.ms", True),
    "request-timeout-ms": ("request.timeout.ms", False),
    "retry-backoff-ms": ("retry.backoff.ms", False),
    "message-send-max-retries": ("retries", False),
    "metadata-expiry-ms": ("metadata.max.age.ms", False),
    "socket-buffer-size": ("send.buffer.bytes", False),
}

TOOL = Tool(
    "kafka-console-producer",
    "Writes lines of standard input to a topic, one record a line.",
    Options(
        *CLUSTER_OPTIONS,
        Option("topic", "The topic to write to.", "topic"),
        Option("sync", "Send one record at a time and wait for it."),
        Option(
            "compression-codec",
            "none, gzip, snappy, lz4 or zstd; gzip when left out.",
            "codec",
            optional=True,
        ),
        Option("reader-property", "How lines are read: parse.key=true, key.separator=:, …", "key=value"),
        Option("reader-config", "A properties file for the reader.", "file"),
        Option("command-property", "A setting of the producer.", "key=value"),
        Option("line-reader", "How lines are read; there is one way.", "class", default=_READERS[0]),
        Option("request-required-acks", "0, 1, or all (-1).", "acks", default="-1"),
        Option("request-timeout-ms", "How long to wait for an answer.", "ms", int),
        Option("timeout", "How long a record waits for others to travel with (linger.ms).", "ms", int, 1000),
        Option("batch-size", "The size of a batch.", "bytes", int, 16384),
        Option("max-block-ms", "How long a record waits for room or for its topic.", "ms", int, 60000),
        Option("max-memory-bytes", "Memory for records that are not sent yet.", "bytes", int, 33554432),
        Option(
            "message-send-max-retries", "Taken; records are retried for delivery.timeout.ms.", "count", int
        ),
        Option("retry-backoff-ms", "The first pause before a retry.", "ms", int),
        Option(
            "metadata-expiry-ms", "Accepted and ignored: metadata is refreshed when it is wrong.", "ms", int
        ),
        Option("socket-buffer-size", "Taken; the system chooses it.", "bytes", int),
        Option("max-partition-memory-bytes", "The old name of --batch-size.", "bytes", int, hidden=True),
        Option("property", "The old name of --reader-property.", "key=value", hidden=True),
        Option("producer-property", "The old name of --command-property.", "key=value", hidden=True),
        Option("producer.config", "The old name of --command-config.", "file", hidden=True),
    ),
    (
        "--bootstrap-server localhost:9092 --topic orders < lines.txt",
        "--bootstrap-server localhost:9092 --topic orders --reader-property parse.key=true "
        "--reader-property key.separator=:",
    ),
)


class RecordReader(Protocol):
    """Turns a line into a record; ToolError names a line that cannot be parsed."""

    def parse(self, line: bytes, line_number: int) -> LineRecord: ...


def plain_reader(properties: Mapping[str, str], topic: str) -> RecordReader:
    return LineReader.configured(properties)


def main(
    arguments: Sequence[str],
    console: Console,
    tool: Tool = TOOL,
    make_reader: Callable[[Mapping[str, str], str], RecordReader] = plain_reader,
) -> int:
    if not arguments:
        raise OptionError("This tool helps to read data from standard input and publish it to Kafka.")
    given = tool.options.parse(with_bootstrap_server(arguments, console))
    require(given, "topic")
    if not given.has("bootstrap-server"):
        raise OptionError("Error while validating the bootstrap address\n")
    check_addresses(given.value("bootstrap-server"))
    try:
        warn_deprecated(given, console)
        reader = make_reader(reader_properties(given), given.value("topic"))
        properties = producer_properties(given)
        asyncio.run(_produce(given, properties, reader, console))
    except ToolError as error:
        console.error(exception_line(error))
        return 1
    except KafkaError as error:
        for line in execution_lines(error):
            console.error(line)
        return 1
    return 0


# Options -----------------------------------------------------------------------------------------------


def warn_deprecated(given: Given, console: Console) -> None:
    for old, new in _DEPRECATED.items():
        if given.has(old) and given.has(new):
            raise OptionError(f"Options --{new} and --{old} cannot be specified together.")
        if given.has(old):
            console.print(
                f"Warning: --{old} is deprecated and will be removed in a future version. "
                f"Use --{new} instead."
            )
    if given.has("max-partition-memory-bytes"):
        console.print(
            "Warning: --max-partition-memory-bytes is deprecated and will be removed in Apache Kafka 5.0. "
            "Use --batch-size instead."
        )
    if given.value("line-reader") not in _READERS:
        raise ToolError("java.lang.ClassNotFoundException", given.value("line-reader"))


def reader_properties(given: Given) -> dict[str, str]:
    words = given.values("reader-property") + given.values("property")
    return {**read_properties(given.value("reader-config")), **parse_pairs(words)}


def producer_properties(given: Given) -> dict[str, str]:
    """The settings of the producer: from the file, overridden by single ones and then by options."""
    path = given.value("command-config") or given.value("producer.config")
    words = given.values("command-property") + given.values("producer-property")
    properties = {**read_properties(path), **parse_pairs(words)}
    if given.has("compression-codec"):
        properties["compression.type"] = given.value("compression-codec") or "gzip"
    if given.has("sync"):
        properties.setdefault("linger.ms", "0")  # nothing comes that a record could wait for
    for option, (setting, with_default) in _SETTINGS.items():
        if given.has(option) or (with_default and setting not in properties):
            properties[setting] = str(given.value(option))
    return properties


# Sending -----------------------------------------------------------------------------------------------


async def _produce(given: Given, properties: dict[str, str], reader: RecordReader, console: Console) -> None:
    options = producer_options(properties)
    interactive = console.stdin.isatty()
    topic: str = given.value("topic")
    async with await open_cluster(
        given.value("bootstrap-server"), properties, console, client_id="console-producer", call="metadata"
    ) as cluster:
        producer = await Producer.open(cluster, **options)
        lines = Lines()
        count = 0
        try:
            _prompt(interactive, console)
            async for data in chunks(console.stdin):
                for line in lines.feed(data):
                    count += 1
                    await _send(producer, topic, reader.parse(line, count), given.has("sync"), console)
                _prompt(interactive, console)
            for line in lines.feed(b""):
                count += 1
                await _send(producer, topic, reader.parse(line, count), given.has("sync"), console)
        finally:
            # What was read before a bad line or Ctrl-C is still written, as Kafka's tool does.
            await producer.close()


def _prompt(interactive: bool, console: Console) -> None:
    if interactive:
        console.write(b">")
        console.flush()


async def _send(producer: Producer, topic: str, record: LineRecord, sync: bool, console: Console) -> None:
    """Sends a record; its error is raised with ``sync``, and otherwise printed."""

    def delivered(outcome: RecordMetadata | KafkaError) -> None:
        if isinstance(outcome, KafkaError):
            log_failure(topic, record, outcome, console)

    send = partial(producer.send, topic, record.value, record.key, headers=record.headers)
    try:
        if sync:
            await (await send())
        else:
            await send(on_delivery=delivered)
    except KafkaError as error:
        failure = send_error(error, topic, record, producer)
        if sync:
            raise failure from None
        log_failure(topic, record, failure, console)


def send_error(error: KafkaError, topic: str, record: LineRecord, producer: Producer) -> KafkaError:
    """The producer's error with the message of the Java client."""
    options = producer.options
    if error.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return KafkaError(error.code, f"Invalid topics: [{topic}]")
    if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        message = f"Topic {topic} not present in metadata after {options.max_block_ms} ms."
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT, message)
    if error.code == ErrorCode.MESSAGE_TOO_LARGE:
        size = serialized_size(record.key, record.value, record.headers)
        return KafkaError(
            error.code,
            f"The message is {size} bytes when serialized which is larger than {options.max_request_bytes}, "
            "which is the value of the max.request.size configuration.",
        )
    return error


def log_failure(topic: str, record: LineRecord, error: KafkaError, console: Console) -> None:
    console.error(
        f"[main] ERROR {_CALLBACK} - Error when sending message to topic {topic} "
        f"with key: {_size(record.key)}, value: {_size(record.value)} with error:"
    )
    console.error(exception_line(error))


def _size(data: bytes | None) -> str:
    return "null" if data is None else f"{len(data)} bytes"
