"""``moldau kafka-verifiable-consumer``: a member of a group that reports in lines of JSON what happens to it.

Test harnesses read it to know who had which partition when, what was read, and what was committed.

Invariant: there is a line for every change of the assignment, every fetch and every commit, in their order. A
signal ends the reading, but not a commit in flight; an error ends it, and is reported on standard error.
"""

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moldau.base.names import TopicPartition
from moldau.cli.kafka_tools.framework.bootstrap import (
    BOOTSTRAP_SERVER,
    open_cluster,
    read_properties,
    with_bootstrap_server,
)
from moldau.cli.kafka_tools.framework.client_settings import consumer_options, group_options
from moldau.cli.kafka_tools.framework.exceptions import exception_line, illegal_argument, sentence
from moldau.cli.kafka_tools.framework.options import Given, Option, OptionError, Options
from moldau.cli.kafka_tools.framework.tool import Console, Tool, report_usage_error, run_async
from moldau.cli.kafka_tools.verifiable_producer import parse_arguments, print_event
from moldau.client.consumer.fetched import ConsumerRecord, FetchedBatch
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.group_consumer import GroupConsumer, RebalanceListener
from moldau.protocol.errors import ErrorCode, KafkaError

_RANGE_ASSIGNOR = "org.apache.kafka.clients.consumer.RangeAssignor"

TOOL = Tool(
    "kafka-verifiable-consumer",
    "Reads a topic as a member of a group, and prints what happens to it as lines of JSON.",
    Options(
        BOOTSTRAP_SERVER,
        Option("topic", "The topic to read.", "topic"),
        Option("group-id", "The consumer group.", "group"),
        Option("group-protocol", "CLASSIC, or CONSUMER for the newer one.", "protocol", default="classic"),
        Option("group-remote-assignor", "The assignor of the coordinator (CONSUMER only).", "name"),
        Option("group-instance-id", "The name of a static member.", "id"),
        Option("max-messages", "How many records to read; -1 until it is stopped.", "count", int, -1),
        Option("session-timeout", "When a silent member is dead (CLASSIC only).", "ms", int, 30_000),
        Option("verbose", "Print every record too."),
        Option("enable-autocommit", "Commit by the clock, not after every fetch."),
        Option("reset-policy", "Where to begin: earliest, latest or none.", "policy", default="earliest"),
        Option("assignment-strategy", "The assignor (CLASSIC only).", "class", default=_RANGE_ASSIGNOR),
        Option("command-config", "A properties file with settings of the consumer.", "file"),
        Option("consumer.config", "The old name of --command-config.", "file", hidden=True),
    ),
    ("--bootstrap-server localhost:9092 --topic numbers --group-id readers --max-messages 100",),
)


def main(arguments: Sequence[str], console: Console) -> int:
    if not arguments:
        console.print(TOOL.help())
        return 0
    try:
        given = parse_arguments(
            TOOL, with_bootstrap_server(arguments, console), ("topic", "group-id", "bootstrap-server")
        )
        if given.has("consumer.config") and given.has("command-config"):
            raise OptionError("Options --consumer.config and --command-config are mutually exclusive.")
    except OptionError as error:
        return report_usage_error(TOOL, OptionError(f"verifiable-consumer: error: {error.message}"), console)
    if given.has("consumer.config"):
        console.print(
            "Option --consumer.config has been deprecated and will be removed in a future version. "
            "Use --command-config instead."
        )
    return run_async(_consume(given, consumer_properties(given), console))


def consumer_properties(given: Given) -> dict[str, str]:
    """The settings of the consumer: those of the file, overridden by the command line."""
    properties = read_properties(given.value("command-config") or given.value("consumer.config"))
    protocol = properties["group.protocol"] = given.value("group-protocol").lower()
    if protocol not in ("classic", "consumer"):
        kind = "org.apache.kafka.clients.consumer.GroupProtocol"
        raise illegal_argument(f"No enum constant {kind}.{protocol.upper()}")
    if protocol == "classic":
        properties["partition.assignment.strategy"] = given.value("assignment-strategy")
    elif given.has("group-remote-assignor"):
        properties["group.remote.assignor"] = given.value("group-remote-assignor")
    if protocol == "classic" or given.has("session-timeout"):
        properties["session.timeout.ms"] = str(given.value("session-timeout"))
    if given.has("group-instance-id"):
        properties["group.instance.id"] = given.value("group-instance-id")
    properties["group.id"] = given.value("group-id")
    properties["auto.offset.reset"] = given.value("reset-policy")
    properties["enable.auto.commit"] = str(given.has("enable-autocommit")).lower()
    return properties


@dataclass(slots=True)
class Report:
    """Prints events, and counts records up to the limit; a negative one means none."""

    console: Console
    most: int
    verbose: bool
    consumed: int = 0

    def event(self, name: str, **more: Any) -> None:
        print_event(self.console, name, **more)

    @property
    def finished(self) -> bool:
        return 0 <= self.most <= self.consumed

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.event("partitions_assigned", partitions=[_named(each) for each in partitions])

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.event("partitions_revoked", partitions=[_named(each) for each in partitions])

    def received(self, batches: Sequence[FetchedBatch]) -> dict[TopicPartition, CommittedOffset]:
        """Reports records up to the limit; returns the next offset of each partition."""
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        for batch in batches:
            found.setdefault(batch.topic_partition, []).extend(batch.consumer_records())
        offsets: dict[TopicPartition, CommittedOffset] = {}
        summaries: list[dict[str, Any]] = []
        for partition, records in found.items():
            shown = records if self.most < 0 else records[: self.most - self.consumed]
            if not shown:
                continue
            first, last = shown[0].offset, shown[-1].offset
            offsets[partition] = CommittedOffset(last + 1, shown[-1].leader_epoch)
            summaries.append(
                {**_named(partition), "count": len(shown), "minOffset": first, "maxOffset": last}
            )
            if self.verbose:
                for record in shown:
                    self.record(record)
            self.consumed += len(shown)
        self.event("records_consumed", count=sum(map(len, found.values())), partitions=summaries)
        return offsets

    def record(self, record: ConsumerRecord) -> None:
        self.event(
            "record_data",
            key=_text(record.key),
            value=_text(record.value),
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        )

    def committed(
        self, offsets: dict[TopicPartition, CommittedOffset], error: KafkaError | None = None
    ) -> None:
        listed = [{**_named(partition), "offset": each.offset} for partition, each in offsets.items()]
        failure = {} if error is None else {"error": sentence(error)}
        self.event("offsets_committed", offsets=listed, **failure, success=error is None)


def _named(partition: TopicPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition}


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


class Stop:
    """Waits for the first signal, and keeps its number."""

    def __init__(self, report: Report) -> None:
        self.number: int | None = None
        self.requested = asyncio.Event()
        self._report = report
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, int(number))

    def _on_signal(self, number: int) -> None:
        if self.number is None:
            self.number = number
            self._report.event("shutdown_requested")
            self.requested.set()


async def _consume(given: Given, properties: dict[str, str], console: Console) -> int:
    options = {**consumer_options(properties), **group_options(properties)}
    report = Report(console, given.value("max-messages"), given.has("verbose"))
    stop = Stop(report)
    topic = given.value("topic")
    async with await open_cluster(
        given.value("bootstrap-server"), properties, console, client_id="consumer-1", call="metadata"
    ) as cluster:
        report.event("startup_complete")
        await cluster.topics([topic], allow_auto_topic_creation=True)
        listener = RebalanceListener(report.assigned, report.revoked)
        consumer = GroupConsumer(cluster, properties["group.id"], [topic], listener=listener, **options)
        try:
            await _read(consumer, report, stop, commits=not given.has("enable-autocommit"))
        except KafkaError as error:
            console.error(exception_line(error))
        finally:
            await consumer.close()
    report.event("shutdown_complete")
    if stop.number is not None:
        return 128 + stop.number
    report.event("shutdown_requested")
    return 0


async def _read(consumer: GroupConsumer, report: Report, stop: Stop, *, commits: bool) -> None:
    loop = asyncio.get_running_loop()
    stopping = loop.create_task(stop.requested.wait())
    try:
        while not report.finished and not stopping.done():
            getting = loop.create_task(consumer.next_batches())
            await asyncio.wait({getting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not getting.done():
                getting.cancel()
                await asyncio.wait({getting})
                return
            offsets = report.received(getting.result())
            if commits:
                await _commit(consumer, report, offsets)
    finally:
        stopping.cancel()


async def _commit(
    consumer: GroupConsumer, report: Report, offsets: dict[TopicPartition, CommittedOffset]
) -> None:
    try:
        await consumer.commit(offsets)
    except KafkaError as error:
        if error.code == ErrorCode.FENCED_INSTANCE_ID:
            raise
        report.committed(offsets, error)
    else:
        report.committed(offsets)
