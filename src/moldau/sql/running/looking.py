"""Runs a plan in this process over the records of its topics: all that are there, or those that come.

Invariant: nothing is written; the batch takes the records of all partitions in the order of their time, each
partition in its own order, as a task of Kafka Streams does.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

from moldau.client import BEGINNING, END, READ_COMMITTED, Cluster, Consumer, TopicPartition
from moldau.client.consumer.consumer import at_offset
from moldau.client.consumer.fetched import ConsumerRecord, FetchedBatch
from moldau.sql.errors import SqlError
from moldau.sql.planner import RESULT_TOPIC, Plan
from moldau.streams import TestDriver
from moldau.streams.versions import by_time

#: A batch is held in memory; more than this is work for Spark.
MOST_RECORDS = 2_000_000

SqlRow = dict[str, Any]


def run_over(plan: Plan, records: Iterable[ConsumerRecord]) -> list[SqlRow]:
    """The rows of a stream, or the rows that a table has in the end."""
    rows: list[SqlRow] = []
    table: dict[Any, SqlRow] = {}
    with TestDriver(plan.topology, decoding_errors="continue") as driver:
        for record in records:
            for output in _outputs(driver, record):
                if plan.kind == "STREAM":
                    rows.append(output.value)
                elif output.value is None:
                    table.pop(output.key, None)
                else:
                    table[output.key] = output.value
    return rows if plan.kind == "STREAM" else list(table.values())


def _outputs(driver: TestDriver, record: ConsumerRecord) -> Iterator[Any]:
    produced = driver.pipe_raw_input(record.topic, record.key, record.value, record.timestamp, record.headers)
    return (each for each in produced if each.topic == RESULT_TOPIC)


def _rows(driver: TestDriver, batch: FetchedBatch, ended: asyncio.Event) -> list[SqlRow]:
    found: list[SqlRow] = []
    for record in batch.consumer_records():
        if ended.is_set():
            break  # nobody waits for the rows any more
        found += [each.value for each in _outputs(driver, record) if each.value is not None]
    return found


async def what_is_there(
    cluster: Cluster,
    plan: Plan,
    as_of_ms: int | None = None,
    on_read: Callable[[int, int], None] = lambda read, total: None,
) -> list[SqlRow]:
    """The rows over what the topics have now, or had until a moment."""
    partitions = await _partitions(cluster, plan)
    kept: dict[TopicPartition, list[ConsumerRecord]] = {each: [] for each in partitions}
    count = read = 0
    async with Consumer(cluster, isolation_level=READ_COMMITTED) as consumer:
        firsts = await consumer.offsets_of(dict.fromkeys(partitions, BEGINNING))
        ends = await consumer.offsets_of(dict.fromkeys(partitions, END))
        total = sum(ends.values()) - sum(firsts.values())
        await consumer.assign(dict.fromkeys(partitions, BEGINNING))
        async for batch in consumer.batches(until=ends):
            own, end = kept[batch.topic_partition], ends[batch.topic_partition]
            for record in batch.consumer_records():
                read += 1
                if record.offset < end and (as_of_ms is None or record.timestamp <= as_of_ms):
                    own.append(record)
                    count += 1
            on_read(min(read, total), total)
            if count > MOST_RECORDS:
                raise SqlError(
                    f"More than {MOST_RECORDS} records are too many to look at from here: "
                    "keep the result with CREATE TABLE … AS SELECT, which runs on Spark."
                )
    on_read(total, total)  # offsets that have no record are no records that wait
    # A server answers others meanwhile.
    return await asyncio.to_thread(run_over, plan, by_time(kept.values()))


async def what_comes(
    cluster: Cluster, plan: Plan, *, from_beginning: bool, poll_ms: int = 500
) -> AsyncIterator[SqlRow | None]:
    """Rows for ever; None now and then while none comes, so that the caller can look around."""
    partitions = await _partitions(cluster, plan)
    start, ended = BEGINNING if from_beginning else END, asyncio.Event()
    with TestDriver(plan.topology, decoding_errors="continue") as driver, ExitStack() as stack:
        stack.callback(ended.set)
        async with Consumer(cluster, isolation_level=READ_COMMITTED) as consumer:
            await consumer.assign(dict.fromkeys(partitions, start))
            while True:
                batch = await consumer.next_batch(timeout_ms=poll_ms)
                if batch is None:
                    yield None
                    continue
                # What functions make of a record may take its time; a server answers others meanwhile.
                for row in await asyncio.to_thread(_rows, driver, batch, ended):
                    yield row


async def _partitions(cluster: Cluster, plan: Plan) -> list[TopicPartition]:
    found = []
    for name in plan.topics:
        topic = await cluster.topic(name)
        found += [TopicPartition(name, partition.index) for partition in topic.partitions]
    return found


async def last_records(cluster: Cluster, topics: Iterable[str], most: int) -> list[ConsumerRecord]:
    """The last records of topics, at most so many of each partition, by time."""
    kept: dict[TopicPartition, list[ConsumerRecord]] = {}
    for name in topics:
        topic = await cluster.topic(name)
        kept |= {TopicPartition(name, each.index): [] for each in topic.partitions}
    async with Consumer(cluster, isolation_level=READ_COMMITTED) as consumer:
        first = await consumer.offsets_of(dict.fromkeys(kept, BEGINNING))
        ends = await consumer.offsets_of(dict.fromkeys(kept, END))
        await consumer.assign({each: at_offset(max(first[each], ends[each] - most)) for each in kept})
        async for batch in consumer.batches(until=ends):
            own, end = kept[batch.topic_partition], ends[batch.topic_partition]
            own += [each for each in batch.consumer_records() if each.offset < end]
    return list(by_time(kept.values()))
