"""``moldau kafka-consumer-perf-test``: how fast records are read, as Kafka's ConsumerPerformance measures it.

With ``--group`` the reader is a member of that group, and ``rebalance.time.ms`` is the time of joining;
without it, it is the time until the partitions and their offsets were known.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from moldau.base.clock import SystemClock
from moldau.base.names import TopicPartition
from moldau.cli.kafka_tools.framework.bootstrap import (
    CLUSTER_OPTIONS,
    open_cluster,
    read_properties,
    with_bootstrap_server,
)
from moldau.cli.kafka_tools.framework.client_settings import consumer_options, group_options
from moldau.cli.kafka_tools.framework.exceptions import ToolError, exception_line, illegal_argument, sentence
from moldau.cli.kafka_tools.framework.options import (
    Given,
    Option,
    OptionError,
    Options,
    exactly_one,
    parse_pairs,
    refuse_with,
    require,
)
from moldau.cli.kafka_tools.framework.tool import Console, Tool, run_async
from moldau.cli.kafka_tools.framework.topic_filter import whole_match
from moldau.cli.kafka_tools.performance.measurements import (
    CONSUMER_HEADER,
    DETAILED_CONSUMER_HEADER,
    consumer_progress_line,
    consumer_total_line,
    date_format,
    metric_lines,
)
from moldau.client.admin.admin import Admin
from moldau.client.consumer.consumer import BEGINNING, END, Consumer
from moldau.client.groups.group_consumer import GroupConsumer, Topics
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import KafkaError

TOOL = Tool(
    "kafka-consumer-perf-test",
    "Measures how fast records are read.",
    Options(
        *CLUSTER_OPTIONS,
        Option("topic", "The topic to read.", "topic"),
        Option("include", "A regular expression: all topics that it matches are read.", "pattern"),
        Option("num-records", "How many records to read.", "count", int),
        Option("from-latest", "Start behind the last record, not at the first."),
        Option("fetch-size", "Bytes of one partition in one answer at most.", "bytes", int, 1048576),
        Option("timeout", "How long to wait for the next record.", "ms", int, 10000, optional=True),
        Option("reporting-interval", "How often to print the progress.", "ms", int, 5000),
        Option("show-detailed-stats", "Print the progress."),
        Option("hide-header", "Print no titles of the columns."),
        Option("date-format", "How times are printed.", "format", default="yyyy-MM-dd HH:mm:ss:SSS"),
        Option("print-metrics", "Print what the consumer counted, at the end."),
        Option("command-property", "A setting of the consumer.", "key=value"),
        Option("group", "Read as a member of this consumer group, and commit.", "group"),
        Option("socket-buffer-size", "Taken; the system chooses it.", "bytes", int, 2097152),
        Option("messages", "The old name of --num-records.", "count", int, hidden=True),
        Option("consumer.config", "The old name of --command-config.", "file", hidden=True),
    ),
    ("--bootstrap-server localhost:9092 --topic perf --num-records 100000",),
    "Without --group partitions are assigned by hand, nothing is committed, and rebalance.time.ms is the "
    "time until the partitions and their offsets were known.",
)


def main(arguments: Sequence[str], console: Console) -> int:
    if not arguments:
        raise OptionError("This tool is used to verify the consumer performance.")
    given = TOOL.options.parse(with_bootstrap_server(arguments, console))
    check(given, console)
    if not given.has("hide-header"):
        console.print(DETAILED_CONSUMER_HEADER if given.has("show-detailed-stats") else CONSUMER_HEADER)
    try:
        properties = consumer_properties(given)
        run_async(_measure(given, properties, console))
    except OptionError as error:
        console.error(error.message)
        return 1
    except (KafkaError, ToolError) as error:
        console.error(sentence(error))
        console.error(exception_line(error))
        return 1
    return 0


def check(given: Given, console: Console) -> None:
    exactly_one(given, "topic", "include")
    exactly_one(given, "messages", "num-records")
    require(given, "bootstrap-server")
    refuse_with(given, "consumer.config", ("command-config",))
    if given.has("messages"):
        console.print("Warning: --messages is deprecated. Use --num-records instead.")
    if given.has("consumer.config"):
        console.print("Warning: --consumer.config is deprecated. Use --command-config instead.")


def consumer_properties(given: Given) -> dict[str, str]:
    if given.value("reporting-interval") <= 0:
        raise illegal_argument("Reporting interval must be greater than 0.")
    path = given.value("command-config") or given.value("consumer.config")
    properties = {**read_properties(path), **parse_pairs(given.values("command-property"))}
    properties["max.partition.fetch.bytes"] = str(given.value("fetch-size"))
    properties["auto.offset.reset"] = "latest" if given.has("from-latest") else "earliest"
    properties.setdefault("check.crcs", "false")
    return properties


class Progress:
    """Counts what was read, and prints the progress."""

    def __init__(
        self, start_ms: int, interval_ms: int, show: Callable[[int], str], print_line: Callable[[str], None]
    ):
        self.count = 0
        self.bytes = 0
        self.join_ms = 0
        self._last_ms = start_ms
        self._last_count = 0
        self._last_bytes = 0
        self._join_in_round_ms = 0
        self._interval_ms = interval_ms
        self._show = show
        self._print = print_line

    def joined(self, join_ms: int) -> None:
        self.join_ms = self._join_in_round_ms = join_ms

    def read(self, records: int, size: int, now_ms: int, *, detailed: bool) -> None:
        self.count += records
        self.bytes += size
        elapsed = now_ms - self._last_ms
        if elapsed < self._interval_ms:
            return
        if detailed:
            self._print(
                consumer_progress_line(
                    self._show(now_ms),
                    elapsed,
                    self._join_in_round_ms,
                    self.count,
                    self._last_count,
                    self.bytes,
                    self._last_bytes,
                )
            )
        self._join_in_round_ms = 0
        self._last_ms, self._last_count, self._last_bytes = now_ms, self.count, self.bytes


async def _measure(given: Given, properties: dict[str, str], console: Console) -> None:
    options = consumer_options(properties)
    show = _clock_face(given.value("date-format"))
    now_ms = SystemClock().now_ms
    async with await open_cluster(
        given.value("bootstrap-server"),
        properties,
        console,
        client_id="perf-consumer-client",
        call="metadata",
    ) as cluster:
        start_ms = now_ms()
        progress = Progress(start_ms, given.value("reporting-interval"), show, console.print)
        async with _consumer(cluster, given, properties, options) as consumer:
            if isinstance(consumer, Consumer):
                partitions = await _partitions(cluster, given)
                begin = END if given.has("from-latest") else BEGINNING
                if partitions:
                    await consumer.assign(dict.fromkeys(partitions, begin))
            else:
                await consumer.join()
            progress.joined(now_ms() - start_ms)
            await _read(consumer, given, progress, now_ms, console)
        end_ms = now_ms()
    if not given.has("show-detailed-stats"):
        line = consumer_total_line(
            show(start_ms), show(end_ms), end_ms - start_ms, progress.join_ms, progress.count, progress.bytes
        )
        console.print(line)
    if given.has("print-metrics"):
        tag = f"{{client-id={properties.get('client.id', 'perf-consumer-client')}}}"
        name = "consumer-fetch-manager-metrics"
        metrics = {
            f"{name}:records-consumed-total:{tag}": float(progress.count),
            f"{name}:bytes-consumed-total:{tag}": float(progress.bytes),
        }
        for metric in metric_lines(metrics):
            console.print(metric)


def _consumer(
    cluster: Cluster, given: Given, properties: dict[str, str], options: dict[str, Any]
) -> Consumer | GroupConsumer:
    group_id = given.value("group") or properties.get("group.id")
    if group_id is None:
        return Consumer(cluster, **options)
    topics: Topics = [given.value("topic")]
    if given.has("include"):
        matches = whole_match(given.value("include"))
        topics = lambda names: filter(matches, names)  # noqa: E731
    return GroupConsumer(cluster, group_id, topics, **options, **group_options(properties))


async def _read(
    consumer: Consumer | GroupConsumer,
    given: Given,
    progress: Progress,
    now_ms: Callable[[], int],
    console: Console,
) -> None:
    wanted: int = given.value("messages") if given.has("messages") else given.value("num-records")
    timeout_ms: int = given.value("timeout")
    detailed = given.has("show-detailed-stats")
    while progress.count < wanted:
        batch = await consumer.next_batch(timeout_ms=timeout_ms)
        if batch is None:
            console.print(
                "WARNING: Exiting before consuming the expected number of records: "
                f"timeout ({timeout_ms} ms) exceeded. "
                "You can use the --timeout option to increase the timeout."
            )
            return
        records = batch.records()
        size = sum(len(record.key or b"") + len(record.value or b"") for record in records)
        progress.read(len(records), size, now_ms(), detailed=detailed)


async def _partitions(cluster: Cluster, given: Given) -> list[TopicPartition]:
    """The partitions to read; none where no topic matches, as for a consumer without an assignment."""
    names = await Admin(cluster).list_topics(include_internal=given.has("topic"))
    if given.has("include"):
        matches = whole_match(given.value("include"))
    else:
        matches = given.value("topic").__eq__
    found = [name for name in names if matches(name)]
    topics = await cluster.topics(found) if found else []
    return [TopicPartition(topic.name, partition.index) for topic in topics for partition in topic.partitions]


def _clock_face(pattern: str) -> Callable[[int], str]:
    try:
        layout = date_format(pattern)
    except ValueError as error:
        raise illegal_argument(str(error)) from None

    def show(time_ms: int) -> str:
        moment = datetime.fromtimestamp(time_ms // 1000)
        return moment.strftime(layout.replace("%f", f"{time_ms % 1000:03d}"))

    return show
