"""``moldau kafka-console-consumer``: prints the records of topics, as Kafka's ConsoleConsumer does.

With ``--group`` it is a member of that group, and commits its offsets; without it all partitions of the
topics are read, and nothing is committed.

Invariant: formatted records go to standard output, everything else to standard error, and "Processed a total
of N messages" is printed however the reading ended.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moldau.base.names import TopicPartition
from moldau.cli.kafka_tools.framework.bootstrap import (
    CLUSTER_OPTIONS,
    open_cluster,
    read_properties,
    with_bootstrap_server,
)
from moldau.cli.kafka_tools.framework.client_settings import consumer_options, group_options
from moldau.cli.kafka_tools.framework.exceptions import ToolError, exception_line, exception_name
from moldau.cli.kafka_tools.framework.options import (
    Given,
    Option,
    OptionError,
    Options,
    exactly_one,
    parse_pairs,
    require,
)
from moldau.cli.kafka_tools.framework.tool import Console, Tool, report_usage_error, run_async
from moldau.cli.kafka_tools.framework.topic_filter import whole_match
from moldau.cli.kafka_tools.records.message_formatter import DEFAULT_FORMATTER, Format, formatter
from moldau.client.admin.admin import Admin
from moldau.client.consumer.consumer import BEGINNING, END, Consumer, Start, at_offset
from moldau.client.consumer.fetched import ConsumerRecord
from moldau.client.groups.group_consumer import GroupConsumer, Topics
from moldau.client.transport.cluster import Cluster, is_retriable
from moldau.protocol.errors import ErrorCode, KafkaError

_JAVA_CLASS = "org.apache.kafka.tools.consumer.ConsoleConsumer"
#: How often to look for a topic that does not exist yet.
_LOOK_AGAIN_S = 0.5

TOOL = Tool(
    "kafka-console-consumer",
    "Prints the records of topics.",
    Options(
        *CLUSTER_OPTIONS,
        Option("topic", "The topic to read.", "topic"),
        Option("include", "A regular expression: all topics that it matches are read.", "pattern"),
        Option("partition", "Read this partition only.", "number", int),
        Option("offset", "With --partition: a number, earliest or latest.", "offset", default="latest"),
        Option("from-beginning", "Start at the first record, not behind the last one."),
        Option("max-messages", "Stop after so many records.", "count", int),
        Option("timeout-ms", "Stop when no record came for so long.", "ms", int),
        Option("isolation-level", "read_committed or read_uncommitted.", "level", default="read_uncommitted"),
        Option("skip-message-on-error", "Go on behind a record that cannot be printed."),
        Option("formatter", "How records are printed.", "class", default=DEFAULT_FORMATTER),
        Option(
            "formatter-property",
            "What is printed: print.key, print.value, print.timestamp, print.offset, print.partition, "
            "print.headers (true or false), key.separator, line.separator, headers.separator, null.literal, "
            "key.deserializer, value.deserializer.",
            "key=value",
        ),
        Option("formatter-config", "A properties file for the formatter.", "file"),
        Option("key-deserializer", "How to read keys, e.g. …serialization.LongDeserializer.", "class"),
        Option("value-deserializer", "How to read values.", "class"),
        Option("command-property", "A setting of the consumer.", "key=value"),
        Option("group", "Read as a member of this consumer group, and commit.", "group"),
        Option("enable-systest-events", "Print when the tool has ended."),
        Option("property", "The old name of --formatter-property.", "key=value", hidden=True),
        Option("consumer-property", "The old name of --command-property.", "key=value", hidden=True),
        Option("consumer.config", "The old name of --command-config.", "file", hidden=True),
    ),
    (
        "--bootstrap-server localhost:9092 --topic orders --from-beginning",
        "--bootstrap-server localhost:9092 --topic orders --partition 0 --offset 42 --max-messages 10",
        "--bootstrap-server localhost:9092 --topic orders --from-beginning "
        "--formatter-property print.key=true",
    ),
    "Without --group partitions are assigned by hand: all of the topic's are read, whoever else reads them, "
    "and nothing is committed.",
)


def main(
    arguments: Sequence[str],
    console: Console,
    tool: Tool = TOOL,
    make_format: Callable[[str, Mapping[str, str]], tuple[Format, list[str]]] = formatter,
) -> int:
    if not arguments:
        raise OptionError("This tool helps to read data from Kafka topics and outputs it to standard output.")
    given = tool.options.parse(with_bootstrap_server(arguments, console))
    check(given)
    properties = consumer_properties(given, console)
    start = parse_start(given)
    try:
        shape, complaints = make_format(given.value("formatter"), formatter_properties(given, console))
    except ToolError as error:
        return report_usage_error(tool, OptionError(error.message), console)
    for line in complaints:
        console.error(f"[main] ERROR {DEFAULT_FORMATTER} - {line}")
    code = _read(given, properties, start, shape, console)
    if given.has("enable-systest-events"):
        console.print("shutdown_complete")
    return code


# Options -----------------------------------------------------------------------------------------------


def check(given: Given) -> None:
    exactly_one(given, "topic", "include")
    if given.has("partition"):
        if not given.has("topic"):
            raise OptionError("The topic is required when partition is specified.")
        if given.has("from-beginning") and given.has("offset"):
            raise OptionError("Options from-beginning and offset cannot be specified together.")
    elif given.has("offset"):
        raise OptionError("The partition is required when offset is specified.")
    require(given, "bootstrap-server")


def consumer_properties(given: Given, console: Console) -> dict[str, str]:
    """The settings of the consumer, with ``auto.offset.reset`` from the options."""
    for old, new in (("consumer-property", "command-property"), ("consumer.config", "command-config")):
        if given.has(old) and given.has(new):
            raise OptionError(f"Options --{old} and --{new} cannot be specified together.")
        if given.has(old):
            console.print(_deprecated(old, new))
    path = given.value("command-config") or given.value("consumer.config")
    from_file = read_properties(path)
    single = parse_pairs(given.values("command-property") + given.values("consumer-property"))
    properties = {**from_file, **single}
    group_id = _group_id(given, from_file, single)
    if group_id is not None:
        properties["group.id"] = group_id
    reset = properties.setdefault(
        "auto.offset.reset", "earliest" if given.has("from-beginning") else "latest"
    )
    if given.has("from-beginning") and reset != "earliest":
        raise OptionError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', "
            "please remove one option",
            with_usage=False,
        )
    if given.has("isolation-level") or "isolation.level" not in properties:
        properties["isolation.level"] = given.value("isolation-level")
    return properties


def _group_id(given: Given, from_file: dict[str, str], single: dict[str, str]) -> str | None:
    groups = given.values("group") + [p["group.id"] for p in (from_file, single) if "group.id" in p]
    groups = list(dict.fromkeys(groups))
    if len(groups) > 1:
        raise OptionError(
            "The group ids provided in different places (directly using '--group', "
            f"via '--consumer-property', or via '--consumer.config') do not match. "
            f"Detected group ids: {', '.join(map(repr, groups))}"
        )
    if groups and given.has("partition"):
        raise OptionError("Options group and partition cannot be specified together.")
    return groups[0] if groups else None


def _deprecated(old: str, new: str) -> str:
    return f"Option --{old} is deprecated and will be removed in a future version. Use --{new} instead."


def parse_start(given: Given) -> Start | None:
    """Where ``--partition`` starts; None where ``auto.offset.reset`` decides."""
    if not given.has("partition"):
        return None
    text = (
        given.value("offset")
        if given.has("offset")
        else "earliest"
        if given.has("from-beginning")
        else "latest"
    )
    if text.lower() == "earliest":
        return BEGINNING
    if text.lower() == "latest":
        return END
    if not text.isdecimal():
        raise OptionError(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', "
            "or a non-negative long."
        )
    return at_offset(int(text))


def formatter_properties(given: Given, console: Console) -> dict[str, str]:
    if given.has("property") and given.has("formatter-property"):
        raise OptionError("Options --property and --formatter-property cannot be specified together.")
    if given.has("property"):
        console.print(_deprecated("property", "formatter-property"))
    properties = read_properties(given.value("formatter-config"))
    for option in ("key-deserializer", "value-deserializer"):
        if given.value(option):
            properties[option.replace("-", ".")] = given.value(option)
    return {**properties, **parse_pairs(given.values("formatter-property") + given.values("property"))}


# Reading -----------------------------------------------------------------------------------------------


class TimedOut(Exception):
    """No record came within ``--timeout-ms``."""


@dataclass(slots=True)
class Printer:
    """Prints records and counts them."""

    shape: Format
    console: Console
    #: -1: no end.
    most: int = -1
    skip_errors: bool = False
    count: int = 0

    @property
    def done(self) -> bool:
        return self.count == self.most

    def print(self, records: Iterable[ConsumerRecord]) -> bool:
        """Prints a record; False when it was the last one, or when the output is closed."""
        try:
            for record in records:
                self.count += 1
                self._write(record)
                if self.done:
                    break
            self.console.flush()
        except BrokenPipeError:
            self.console.abandon_output()
            self.console.error("Unable to write to standard out, closing consumer.")
            return False
        return not self.done

    def _write(self, record: ConsumerRecord) -> None:
        try:
            self.console.write(self.shape(record))
        except ToolError as error:
            if not self.skip_errors:
                raise
            log_error(
                "Error processing message, skipping this message: ", exception_line(error), self.console
            )


def log_error(what: str, cause: str, console: Console) -> None:
    """Prints an error as Kafka's tool logs it."""
    console.error(f"[main] ERROR {_JAVA_CLASS} - {what}")
    console.error(cause)


def _read(
    given: Given, properties: dict[str, str], start: Start | None, shape: Format, console: Console
) -> int:
    """Reads records until the end; returns the exit code."""
    printer = Printer(shape, console, skip_errors=given.has("skip-message-on-error"))
    failure: KafkaError | ToolError | OptionError | None = None
    code = 0
    try:
        options = consumer_options(properties)
        printer.most = -1 if given.value("max-messages") is None else given.value("max-messages")
        code = run_async(_until_signal(_consume(given, properties, options, start, printer)))
    except (KafkaError, ToolError, OptionError) as error:
        failure = error
        code = 1
    console.error(f"Processed a total of {printer.count} messages")
    if failure is not None:
        cause = failure.message if isinstance(failure, OptionError) else exception_line(failure)
        log_error("Unknown error when running consumer: ", cause, console)
    return code


async def _until_signal(work: Coroutine[Any, Any, None]) -> int:
    """SIGINT and SIGTERM end the reading, but not the tool: it still prints how much was read."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    signals: list[int] = []

    def stop(number: int) -> None:
        signals.append(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        await task
    except asyncio.CancelledError:
        if not signals:
            raise
    return 128 + signals[0] if signals else 0


async def _consume(
    given: Given, properties: dict[str, str], options: dict[str, Any], start: Start | None, printer: Printer
) -> None:
    console = printer.console
    async with await open_cluster(
        given.value("bootstrap-server"), properties, console, client_id="console-consumer", call="metadata"
    ) as cluster:
        try:
            if not printer.done:
                await _receive(cluster, given, properties, options, start, printer)
        except TimedOut:
            cause = exception_name(ErrorCode.REQUEST_TIMED_OUT)
            log_error("Error processing message, terminating consumer process: ", cause, console)
        except KafkaError as error:
            java_error = _as_java_error(error, given)
            log_error(
                "Error processing message, terminating consumer process: ",
                exception_line(java_error),
                console,
            )


def _as_java_error(error: KafkaError, given: Given) -> KafkaError:
    if error.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return KafkaError(error.code, f"Invalid topics: [{given.value('topic')}]")
    return error


async def _receive(
    cluster: Cluster,
    given: Given,
    properties: dict[str, str],
    options: dict[str, Any],
    start: Start | None,
    printer: Printer,
) -> None:
    timeout_ms: int | None = given.value("timeout-ms")
    if timeout_ms is not None and timeout_ms < 0:
        timeout_ms = None
    try:
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            partitions = await _wait_for_partitions(cluster, given, printer.console)
    except TimeoutError:
        raise TimedOut from None
    if "group.id" in properties:
        await _receive_as_member(cluster, given, properties, options, timeout_ms, printer)
        return
    begin = start or options["offset_reset"] or END
    async with Consumer(cluster, **options) as consumer:
        await consumer.assign(dict.fromkeys(partitions, begin))
        going = True
        while going:
            batch = await consumer.next_batch(timeout_ms=timeout_ms)
            if batch is None:
                raise TimedOut
            going = printer.print(batch.consumer_records())


async def _receive_as_member(
    cluster: Cluster,
    given: Given,
    properties: dict[str, str],
    options: dict[str, Any],
    timeout_ms: int | None,
    printer: Printer,
) -> None:
    topics: Topics = [given.value("topic")]
    if given.has("include"):
        matches = whole_match(given.value("include"))
        topics = lambda names: filter(matches, names)  # noqa: E731
    options = {**options, **group_options(properties)}
    async with GroupConsumer(cluster, properties["group.id"], topics, **options) as consumer:
        while True:
            batch = await consumer.next_batch(timeout_ms=timeout_ms)
            if batch is None:
                raise TimedOut
            records = list(batch.consumer_records())
            before = printer.count
            if not printer.print(records):
                printed = printer.count - before
                if printed < len(records):  # what was not printed is left to the next member
                    await consumer.seek(batch.topic_partition, records[printed].offset)
                return


async def _wait_for_partitions(cluster: Cluster, given: Given, console: Console) -> list[TopicPartition]:
    """The partitions to read; waits for a topic that does not exist yet, as Kafka's consumer does."""
    attempts = 0
    while True:
        try:
            found = await _partitions(cluster, given)
        except KafkaError as error:
            if not is_retriable(error):
                raise
            found = []
        if found:
            return found
        attempts += 1
        if attempts == 2:  # a topic that is just being created is there by now
            console.error("hint: there is nothing to read yet: no such topic or partition; waiting for it")
        await asyncio.sleep(_LOOK_AGAIN_S)


async def _partitions(cluster: Cluster, given: Given) -> list[TopicPartition]:
    if given.has("include"):
        matches = whole_match(given.value("include"))
        names = [name for name in await Admin(cluster).list_topics(include_internal=False) if matches(name)]
        topics = await cluster.topics(names) if names else []
    else:
        topics = [await cluster.topic(given.value("topic"), refresh=True, allow_auto_topic_creation=True)]
    wanted = given.value("partition")
    return [
        TopicPartition(topic.name, partition.index)
        for topic in topics
        for partition in topic.partitions
        if wanted is None or partition.index == wanted
    ]
