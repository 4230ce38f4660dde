"""``moldau kafka-producer-perf-test``: how fast records are written, as Kafka's ProducerPerformance.

A record that could not be written is reported on standard error and does not count.
"""

import asyncio
import os
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from moldau.base.clock import SystemClock
from moldau.cli.kafka_tools.console_producer import send_error
from moldau.cli.kafka_tools.framework.bootstrap import open_cluster, read_properties
from moldau.cli.kafka_tools.framework.client_settings import producer_options
from moldau.cli.kafka_tools.framework.exceptions import ToolError, exception_line, illegal_argument
from moldau.cli.kafka_tools.framework.line_reader import LineRecord
from moldau.cli.kafka_tools.framework.options import Given, Option, OptionError, Options
from moldau.cli.kafka_tools.framework.tool import Console, Tool, report_usage_error, run_async
from moldau.cli.kafka_tools.performance.measurements import ProducerFigures, metric_lines
from moldau.client.producer.accumulator import OnDelivery, RecordMetadata
from moldau.client.producer.producer import Producer
from moldau.protocol.errors import KafkaError

_NAME = "kafka-producer-perf-test"
_PAYLOADS = ("record-size", "payload-file", "payload-monotonic")
_POOL_BYTES = 1 << 20
_TRANSACTION_DURATION_MS = 3000

TOOL = Tool(
    _NAME,
    "Measures how fast records are written.",
    Options(
        Option("bootstrap-server", "The brokers to connect to, as host1:port1,host2:port2.", "servers"),
        Option("topic", "The topic to write to.", "topic"),
        Option("num-records", "How many records to write.", "count", int),
        Option(
            "record-size", "The size of a record; or --payload-file or --payload-monotonic.", "bytes", int
        ),
        Option("payload-file", "A file with texts, of which one is chosen for each record.", "file"),
        Option("payload-delimiter", "What stands between the texts of the file.", "pattern", default="\\n"),
        Option("payload-monotonic", "Records are the numbers from 0 on."),
        Option("throughput", "Records a second at most; -1 for no limit.", "count", float),
        Option("command-property", "Settings of the producer.", "key=value", several=True),
        Option("command-config", "A properties file with settings of the producer.", "file"),
        Option("print-metrics", "Print what the producer counted, at the end."),
        Option(
            "warmup-records", "How many records at the beginning are measured separately.", "count", int, 0
        ),
        Option("reporting-interval", "How often to print the progress.", "ms", int, 5000),
        Option("transactional-id", "Write in transactions with this id; else one is made up.", "id"),
        Option(
            "transaction-duration-ms",
            "Write in transactions, and commit each after so long; 3000.",
            "ms",
            int,
        ),
        Option(
            "producer-props", "The old name of --command-property.", "key=value", several=True, hidden=True
        ),
        Option("producer.config", "The old name of --command-config.", "file", hidden=True),
    ),
    (
        "--topic perf --num-records 100000 --record-size 100 --throughput -1 "
        "--bootstrap-server localhost:9092",
        "--topic perf --num-records 5000 --payload-file lines.txt --throughput 1000 "
        "--command-property bootstrap.servers=localhost:9092 acks=1 linger.ms=10",
        "--topic perf --num-records 100000 --record-size 100 --throughput -1 --transaction-duration-ms 100 "
        "--bootstrap-server localhost:9092",
    ),
)


def main(arguments: Sequence[str], console: Console) -> int:
    if not arguments:
        console.print(TOOL.help())
        return 0
    try:
        given = TOOL.options.parse(arguments)
        check(given)
    except OptionError as error:
        message = _as_argument(error.message)
        return report_usage_error(TOOL, OptionError(f"{_NAME}: error: {message}"), console)
    try:
        properties = producer_properties(given, console)
        payload = payloads(given, console)
        run_async(_produce(given, properties, payload, console))
    except (KafkaError, ToolError) as error:
        console.error(f'Exception in thread "main" {exception_line(error)}')
        return 1
    return 0


# Options -----------------------------------------------------------------------------------------------


def _as_argument(message: str) -> str:
    """An error with the message of the option library that this tool of Kafka uses."""
    unknown = re.fullmatch(r"(.*) is not a recognized option", message)
    if unknown:
        return f"unrecognized arguments: '--{unknown[1]}'"
    unfit = re.fullmatch(r"Cannot parse argument '(.*)' of option (.*)", message)
    if unfit:
        kind = "Double" if unfit[2] == "throughput" else "Long"
        word = unfit[1]
        return f"argument --{unfit[2]}: could not convert '{word}' to {kind} (For input string: \"{word}\")"
    return message


def check(given: Given) -> None:
    for name in ("topic", "num-records", "throughput"):
        if not given.has(name):
            raise OptionError(f"argument --{name} is required")
    named = [name for name in _PAYLOADS if given.has(name)]
    if not named:
        listed = " ".join(f"--{name}" for name in _PAYLOADS)
        raise OptionError(f"one of the arguments {listed} is required")
    if len(named) > 1:
        raise OptionError(f"argument --{named[1]}: not allowed with argument --{named[0]}")
    for old, new in (("producer-props", "command-property"), ("producer.config", "command-config")):
        if given.has(old) and given.has(new):
            raise OptionError(f"--{new} and --{old} cannot be specified together.")
    sources = ("bootstrap-server", "command-property", "producer-props", "producer.config", "command-config")
    if not any(given.has(name) for name in sources):
        listed = ", ".join(f"--{name}" for name in sources[:-1])
        raise OptionError(f"At least one of {listed} or --{sources[-1]} must be specified.")
    for name in ("num-records", "record-size", "reporting-interval", "transaction-duration-ms"):
        if given.has(name) and given.value(name) <= 0:
            raise OptionError(f"--{name} should be greater than zero.")
    if given.value("throughput") == 0:
        raise OptionError("--throughput should be greater than zero, or -1 for no limit.")
    if given.value("warmup-records") < 0:
        raise OptionError("The value for --warmup-records must not be negative.")
    if given.value("warmup-records") >= given.value("num-records"):
        raise OptionError(
            "The value for --warmup-records must be strictly fewer than the number of records in the test, "
            "--num-records."
        )


def producer_properties(given: Given, console: Console) -> dict[str, str]:
    """The settings of the producer: from the file, overridden by single ones and then by options."""
    for old, new in (("producer-props", "command-property"), ("producer.config", "command-config")):
        if given.has(old):
            console.print(
                f"Option --{old} has been deprecated and will be removed in a future version. "
                f"Use --{new} instead."
            )
    properties = read_properties(given.value("command-config") or given.value("producer.config"))
    for word in given.values("command-property") + given.values("producer-props"):
        pieces = word.split("=")
        if len(pieces) != 2 or not pieces[1]:
            raise illegal_argument(f"Invalid property: {word}")
        properties[pieces[0]] = pieces[1]
    if given.has("bootstrap-server"):
        properties["bootstrap.servers"] = given.value("bootstrap-server")
    if not properties.get("bootstrap.servers"):
        name = "org.apache.kafka.common.config.ConfigException"
        raise ToolError(name, "No resolvable bootstrap urls given in bootstrap.servers")
    if given.has("transactional-id"):
        properties["transactional.id"] = given.value("transactional-id")
    elif given.has("transaction-duration-ms"):
        properties.setdefault("transactional.id", f"performance-producer-{uuid4()}")
    return properties


def payloads(given: Given, console: Console) -> Callable[[int], bytes]:
    """The function that gives the value of a record by its number."""
    choose = random.Random(0)
    if given.has("payload-file"):
        texts = read_payloads(given.value("payload-file"), given.value("payload-delimiter"), console)
        return lambda index: choose.choice(texts)
    if given.has("payload-monotonic"):
        return lambda index: b"%d" % index
    size: int = given.value("record-size")
    pool = bytes(choose.choices(range(65, 91), k=min(_POOL_BYTES, size * 64) + size))
    last = len(pool) - size

    def piece(index: int) -> bytes:
        start = int(choose.random() * last)
        return pool[start : start + size]

    return piece


def read_payloads(path: str, delimiter: str, console: Console) -> list[bytes]:
    console.print(f"Reading payloads from: {os.path.abspath(path)}")
    file = Path(path)
    if not file.exists() or not file.stat().st_size:
        raise illegal_argument("File does not exist or empty file provided.")
    try:
        texts = re.split(delimiter, file.read_text("utf-8"))
    except (OSError, ValueError, re.error) as error:
        raise illegal_argument(f"{path}: {error}") from None
    if not texts[-1]:
        texts.pop()  # behind the last delimiter
    console.print(f"Number of records read: {len(texts)}")
    return [text.encode() for text in texts]


# Measuring ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Run:
    """The figures of all records, and of those after the warm-up."""

    console: Console
    interval_ms: int
    total: ProducerFigures
    steady: ProducerFigures | None = None
    failures: int = 0

    def delivered(self, start_ms: int, now_ms: int, size: int, *, steady: bool) -> None:
        latency = now_ms - start_ms
        self.total.record(latency, size)
        shown = self.total
        if self.steady is not None:
            shown = self.steady
            if steady:
                self.steady.record(latency, size)
        line = shown.window_line(now_ms, self.interval_ms)
        if line is not None:
            self.console.print(line)

    def failed(self, error: KafkaError) -> None:
        self.failures += 1
        self.console.error(exception_line(error))

    def lines(self, now_ms: int) -> list[str]:
        figures = [self.total, *([self.steady] if self.steady is not None else [])]
        return [each.total_line(now_ms) for each in figures]


class _Transactions:
    """Each is committed with the first record after its time."""

    def __init__(self, producer: Producer, duration_ms: int) -> None:
        self._producer = producer
        self._duration_ms = duration_ms
        self._began_ms: int | None = None

    async def before(self, now_ms: int) -> None:
        """A record is about to be written."""
        if self._began_ms is None:
            await self._producer.begin_transaction()
            self._began_ms = now_ms

    async def after(self, now_ms: int) -> None:
        if self._began_ms is not None and now_ms - self._began_ms >= self._duration_ms:
            await self.end()

    async def end(self) -> None:
        if self._began_ms is not None:
            await self._producer.commit_transaction()
            self._began_ms = None


async def _produce(
    given: Given, properties: dict[str, str], payload: Callable[[int], bytes], console: Console
) -> None:
    transactional_id = properties.pop("transactional.id", "")
    options = producer_options(properties)
    if transactional_id:
        options["transactional_id"] = transactional_id
    now_ms = SystemClock().now_ms
    count: int = given.value("num-records")
    warmup: int = given.value("warmup-records")
    servers = properties["bootstrap.servers"]
    async with await open_cluster(
        servers, properties, console, client_id="perf-producer-client", call="metadata"
    ) as cluster:
        if warmup:
            console.print(
                f"Warmup first {warmup} records. "
                "Steady state results will print after the complete test summary."
            )
        async with await Producer.open(cluster, **options) as producer:
            measured = _Run(console, given.value("reporting-interval"), ProducerFigures(count, now_ms()))
            await _send_all(producer, given, payload, measured, now_ms)
            await producer.flush()
        end_ms = now_ms()
    for line in measured.lines(end_ms):
        console.print(line)
    if given.has("print-metrics"):
        for line in metric_lines(_metrics(measured, properties)):
            console.print(line)


async def _send_all(
    producer: Producer,
    given: Given,
    payload: Callable[[int], bytes],
    measured: _Run,
    now_ms: Callable[[], int],
) -> None:
    topic: str = given.value("topic")
    count: int = given.value("num-records")
    warmup: int = given.value("warmup-records")
    throughput: float = given.value("throughput")
    begin_ms = now_ms()
    transactions = None
    if producer.options.transactional_id is not None:
        duration_ms = given.value("transaction-duration-ms") or _TRANSACTION_DURATION_MS
        transactions = _Transactions(producer, duration_ms)

    def callback(start_ms: int, size: int, steady: bool) -> OnDelivery:
        def done(outcome: RecordMetadata | KafkaError) -> None:
            if isinstance(outcome, KafkaError):
                measured.failed(outcome)
            else:
                measured.delivered(start_ms, now_ms(), size, steady=steady)

        return done

    for index in range(count):
        value = payload(index)
        start_ms = now_ms()
        if warmup and index == warmup:
            measured.steady = ProducerFigures(count - warmup, start_ms, steady_state=True)
        done = callback(start_ms, len(value), index >= warmup)
        if transactions is not None:
            await transactions.before(start_ms)
        try:
            if producer.try_send(topic, value, on_delivery=done) is None:
                await producer.send(topic, value, on_delivery=done)
        except KafkaError as error:
            measured.failed(send_error(error, topic, LineRecord(None, value), producer))
        if transactions is not None:
            await transactions.after(start_ms)
        if throughput > 0:
            ahead_s = (index + 1) / throughput - (start_ms - begin_ms) / 1000
            if ahead_s > 0:
                await asyncio.sleep(ahead_s)
    if transactions is not None:
        await transactions.end()


def _metrics(measured: _Run, properties: dict[str, str]) -> dict[str, float]:
    """The metrics of our producer, with Kafka's names."""
    tag = f"{{client-id={properties.get('client.id', 'perf-producer-client')}}}"
    figures = {
        "record-send-total": float(measured.total.count),
        "byte-total": float(measured.total.bytes),
        "record-error-total": float(measured.failures),
    }
    return {f"producer-metrics:{name}:{tag}": value for name, value in figures.items()}
