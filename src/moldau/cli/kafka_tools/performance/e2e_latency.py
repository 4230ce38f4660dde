"""``moldau kafka-e2e-latency``: the time from producer to consumer, as Kafka's EndToEndLatency measures it.

One record at a time is sent, acknowledged, and read. A record that comes back changed ends the test with an
error.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from moldau.base.clock import SystemClock
from moldau.base.names import TopicPartition
from moldau.cli.kafka_tools.framework.bootstrap import open_cluster, read_properties, with_bootstrap_server
from moldau.cli.kafka_tools.framework.client_settings import consumer_options, producer_options
from moldau.cli.kafka_tools.framework.exceptions import ToolError, exception_line, sentence
from moldau.cli.kafka_tools.framework.options import (
    Given,
    Option,
    OptionError,
    Options,
    looks_like_an_option,
    require,
)
from moldau.cli.kafka_tools.framework.tool import Console, Tool, run_async
from moldau.cli.kafka_tools.performance.measurements import latency_lines
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import NewTopic
from moldau.client.consumer.consumer import END, Consumer
from moldau.client.producer.producer import Producer
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import KafkaError

_POLL_TIMEOUT_MS = 60_000
_REQUIRED = ("bootstrap-server", "topic", "num-records", "producer-acks", "record-size")
_POSITIONAL = (*_REQUIRED, "command-config")

TOOL = Tool(
    "kafka-e2e-latency",
    "Measures the time from producer to consumer, one record at a time.",
    Options(
        Option("bootstrap-server", "The brokers to connect to, as host1:port1,host2:port2.", "servers"),
        Option("topic", "The topic to use; it is created if there is none.", "topic"),
        Option("num-records", "How many records to send.", "count", int),
        Option("producer-acks", "1 or all.", "acks"),
        Option("record-size", "The size of a record's value.", "bytes", int),
        Option("record-key-size", "The size of its key; 0 for no key.", "bytes", int, 0, optional=True),
        Option("num-headers", "How many headers it has.", "count", int, 0, optional=True),
        Option("record-header-key-size", "The size of a header's name.", "bytes", int, 0, optional=True),
        Option(
            "record-header-size", "The size of a header's value; -1 for null.", "bytes", int, 0, optional=True
        ),
        Option("command-config", "A properties file with settings of the clients.", "file", optional=True),
    ),
    (
        "--bootstrap-server localhost:9092 --topic latency --num-records 10000 "
        "--producer-acks 1 --record-size 100",
        "localhost:9092 latency 10000 1 100",
    ),
    "Partitions are assigned by hand, as in Kafka's own tool.",
)


def main(arguments: Sequence[str], console: Console) -> int:
    if not arguments:
        raise OptionError(
            "This tool measures end-to-end latency in Kafka by sending messages and timing their reception."
        )
    given = TOOL.options.parse(with_bootstrap_server(named(arguments, console), console))
    check(given)
    try:
        run_async(_measure(given, console))
    except (KafkaError, ToolError) as error:
        console.error(sentence(error))
        console.error(exception_line(error))
        return 1
    return 0


def named(arguments: Sequence[str], console: Console) -> list[str]:
    """Turns positional arguments, as older versions took them, into options."""
    if looks_like_an_option(arguments[0]):
        return list(arguments)
    if len(arguments) not in (5, 6):
        raise OptionError(
            f"Invalid number of arguments. Expected 5 or 6 positional arguments, but got {len(arguments)}. "
            "Usage: bootstrap-server topic num-records producer-acks record-size [optional] command-config",
            with_usage=False,
        )
    console.print(
        "WARNING: Positional argument usage is deprecated and will be removed in Apache Kafka 5.0. "
        "Please use named arguments instead: --bootstrap-server, --topic, --num-records, --producer-acks, "
        "--record-size, --command-config"
    )
    return [part for name, word in zip(_POSITIONAL, arguments, strict=False) for part in (f"--{name}", word)]


def check(given: Given) -> None:
    require(given, *_REQUIRED)
    if given.value("producer-acks") not in ("1", "all"):
        raise OptionError(
            "Invalid value for --producer-acks. Latency testing requires synchronous acknowledgement. "
            "Please use '1' or 'all'."
        )
    if given.value("num-records") <= 0:
        raise OptionError("Value for --num-records must be a positive integer.")
    for name in ("record-size", "record-key-size", "num-headers", "record-header-key-size"):
        if given.value(name) < 0:
            raise OptionError(f"Value for --{name} must be a non-negative integer.")
    if given.value("record-header-size") < -1:
        raise OptionError(
            "Value for --record-header-size must be a non-negative integer or -1 for null header value."
        )


@dataclass(frozen=True, slots=True)
class Sizes:
    value: int
    key: int = 0
    headers: int = 0
    header_key: int = 0
    header_value: int = 0


def message(
    sizes: Sizes, letters: random.Random
) -> tuple[bytes | None, bytes, tuple[tuple[str, bytes | None], ...]]:
    """A key, a value and headers, each filled with one repeated letter."""

    def text(size: int) -> bytes:
        return bytes([letters.randrange(65, 91)]) * size

    headers = tuple(
        (text(sizes.header_key).decode(), None if sizes.header_value < 0 else text(sizes.header_value))
        for _ in range(sizes.headers)
    )
    return (text(sizes.key) if sizes.key else None), text(sizes.value), headers


async def _measure(given: Given, console: Console) -> None:
    properties = read_properties(given.value("command-config") or None)
    producing = producer_options({**properties, "acks": given.value("producer-acks"), "linger.ms": "0"})
    consuming = consumer_options({**properties, "auto.offset.reset": "latest"})
    topic: str = given.value("topic")
    async with await open_cluster(
        given.value("bootstrap-server"), properties, console, client_id="e2e-latency", call="metadata"
    ) as cluster:
        await _ensure_topic(cluster, topic, console)
        found = await cluster.retry(lambda: cluster.topic(topic, refresh=True))
        async with (
            await Producer.open(cluster, **producing) as producer,
            Consumer(cluster, **consuming) as consumer,
        ):
            partitions = [TopicPartition(topic, partition.index) for partition in found.partitions]
            await consumer.assign(dict.fromkeys(partitions, END))
            latencies = await _round_trips(producer, consumer, given, console)
    for line in latency_lines(latencies):
        console.print(line)


async def _ensure_topic(cluster: Cluster, topic: str, console: Console) -> None:
    admin = Admin(cluster)
    if topic in await admin.list_topics():
        return
    console.print(
        f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1'
    )
    try:
        raise_errors(await admin.create_topics([NewTopic(topic, 1, 1)]))
    except KafkaError:
        console.print(f"Creation of topic {topic} failed")
        raise


async def _round_trips(producer: Producer, consumer: Consumer, given: Given, console: Console) -> list[int]:
    sizes = Sizes(
        given.value("record-size"),
        given.value("record-key-size"),
        given.value("num-headers"),
        given.value("record-header-key-size"),
        given.value("record-header-size"),
    )
    letters = random.Random(0)
    now = SystemClock().monotonic
    topic: str = given.value("topic")
    latencies: list[int] = []
    for index in range(given.value("num-records")):
        key, value, headers = message(sizes, letters)
        begin = now()
        await (await producer.send(topic, value, key, headers=headers))
        batch = await consumer.next_batch(timeout_ms=_POLL_TIMEOUT_MS)
        elapsed = round((now() - begin) * 1_000_000_000)
        records = [] if batch is None else batch.records()
        if not records:
            raise _failure(f"poll() timed out before finding a result (timeout:[{_POLL_TIMEOUT_MS}ms])")
        if len(records) != 1:
            raise _failure(f"Only one result was expected during this test. We found [{len(records)}]")
        if (records[0].key, records[0].value, records[0].headers) != (key, value, headers):
            raise _failure(
                "The message read did not match the message sent: does anyone else write to the topic?"
            )
        if index % 1000 == 0:
            console.print(f"{index}\t{elapsed / 1000 / 1000}")
        latencies.append(elapsed)
    return latencies


def _failure(text: str) -> ToolError:
    return ToolError("java.lang.RuntimeException", text)
