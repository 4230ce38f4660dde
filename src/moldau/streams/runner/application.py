"""An application on Spark: the query, the decision of each batch, the consumer group, what is known of it.

    with start(topology, "word-count", bootstrap_servers="localhost:9092", spark=spark) as running:
        running.await_batch(…)

Invariant: a batch is decided once. What a query that died has left is ended before the first task of the next
one begins; a second driver of the same application fences the first.
"""

import asyncio
import logging
import pickle
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.base.clock import SystemClock
from moldau.base.names import TopicPartition
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.spark.background_loop import connect
from moldau.spark.options import ClusterOptions, WriteOptions, read_options
from moldau.spark.query.group import QueryGroup
from moldau.spark.query.name import Query
from moldau.spark.write.exactly_once import Decisions
from moldau.streams.engine.task import OnError
from moldau.streams.errors import StreamsError
from moldau.streams.runner.layout import laid_out, source_topics
from moldau.streams.runner.orders import Application, Done, Updates
from moldau.streams.runner.programs import Program
from moldau.streams.runner.source import APPLICATION, FORMAT, StreamsSource, packed
from moldau.streams.runner.topics import ApplicationTopics
from moldau.streams.topology.advice import advise

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("moldau.streams")


@dataclass(frozen=True, slots=True)
class StreamsOptions:
    """How an application runs: everything that does not stand in its program."""

    bootstrap_servers: str = "127.0.0.1:9092"
    #: More options of ``format("moldau")``, for TLS and SASL.
    options: Mapping[str, str] = field(default_factory=dict)
    processing_errors: OnError = "fail"
    decoding_errors: OnError = "fail"
    dead_letter_topic: str | None = None
    changelogs: bool = False
    workers: int | None = None
    max_records: int = 1_000_000
    start_at: str = "earliest"
    compression: str = "none"
    #: Partitions of output topics that are not there yet.
    partitions: int | None = None
    replication_factor: int | None = None
    in_memory: bool | None = None
    #: ``last``: topics that get the rows of a table get the last one for each key of a batch only.
    updates: Updates = "all"

    @property
    def cluster(self) -> ClusterOptions:
        given = {"kafka.bootstrap.servers": self.bootstrap_servers, **self.options, "subscribe": "any"}
        return read_options(given).cluster


@dataclass(slots=True)
class Progress:
    """What an application has done since it was started, and in its last batch."""

    batch_id: int = -1
    batches: int = 0
    records_in: int = 0
    records_out: int = 0
    rows_changed: int = 0
    dropped: int = 0
    #: How many of them for which reason: late, no-key-or-value, no-time, outdated, undecodable, failed.
    reasons: dict[str, int] = field(default_factory=dict)
    dead_letters: int = 0
    batch_seconds: float = 0.0
    batch_records: int = 0
    #: From the time of the newest record of the last batch to its end.
    latency_ms: int | None = None
    restored_tasks: int = 0
    positions: dict[TopicPartition, int] = field(default_factory=dict)


def prepared(program: Program, application_id: str, options: StreamsOptions, workers: int) -> Application:
    """Checks the program against the cluster and makes the topics it needs; StreamsError says why not."""
    topology = program.load().topology(0)
    topics = ApplicationTopics(options.cluster, options.replication_factor)
    partitions = topics.partitions_of(source_topics(topology))
    for advice in advise(topology, partitions):
        if advice.kind == "error":
            raise StreamsError(f"{advice.problem}: {advice.fix}")
        log.warning("%s: %s", advice.problem, advice.fix)
    layout = laid_out(topology, application_id, partitions, in_memory=options.in_memory)
    topics.make(layout.internal_topics)
    most = max((group.tasks for group in layout.groups), default=1)
    named = [sink.topic for sink in topology.sinks() if sink.topic and not sink.is_internal]
    topics.make_outputs([*named, *filter(None, [options.dead_letter_topic])], options.partitions or most)
    if options.changelogs:
        from moldau.streams.runner.changelogs import Changelogs

        topics.make(Changelogs(topology, application_id).topics(most))
    return Application(
        application_id,
        program,
        layout,
        options.cluster,
        options.processing_errors,
        options.decoding_errors,
        options.dead_letter_topic,
        options.changelogs,
        workers,
        options.max_records,
        options.start_at,
        options.compression,
        options.updates,
    )


class RunningApplication:
    """A query that runs; made by ``start``."""

    def __init__(
        self,
        spark: "SparkSession",
        application: Application,
        checkpoint: str | Path,
        on_batch: Callable[[Progress], None] | None = None,
    ) -> None:
        self.application = application
        self.progress = Progress()
        self._spark = spark
        self._checkpoint = str(checkpoint)
        self._on_batch = on_batch
        self._loop = connect(application.cluster)
        self._clock = SystemClock()
        query = Query(name=application.application_id)
        self._group = QueryGroup(self._loop, application.application_id, query=query)
        self._in_turn = asyncio.Lock()
        self._showing: Future[None] | None = None
        self._decisions = self._loop.run(self._opened())
        #: How far the topics were taken by batches that are decided.
        self.seen: dict[TopicPartition, int] = self._committed()
        self.query: StreamingQuery | None = None

    def _committed(self) -> dict[TopicPartition, int]:
        """Where the last run ended, as its group shows it."""
        places = set(self.application.layout.all_places())
        found = self._loop.run(Groups(self._loop.cluster).committed(self.application.application_id))
        return {
            place: each.offset
            for place, each in found.items()
            if isinstance(each, CommittedOffset) and place in places
        }

    async def _opened(self) -> Decisions:
        decisions = await Decisions.open(self._loop.cluster, self.application.query)
        await decisions.finish_last()
        await decisions.clean_up()
        return decisions

    def start(self, **trigger: Any) -> "StreamingQuery":
        """Starts the query; ``trigger`` is Spark's own, such as ``availableNow=True``."""
        spark = self._spark
        spark.dataSource.register(StreamsSource)
        frame = spark.readStream.format(FORMAT).option(APPLICATION, packed(self.application)).load()
        writer = (
            frame.writeStream.queryName(self.application.application_id)
            .option("checkpointLocation", self._checkpoint)
            .foreachBatch(self._batch)
        )
        self.query = (writer.trigger(**trigger) if trigger else writer).start()
        return self.query

    def _batch(self, frame: "DataFrame", batch_id: int) -> None:
        begun = self._clock.monotonic()
        rows = frame.collect()
        answers: list[Done] = [pickle.loads(row["done"]) for row in rows]
        parts = [done.part for done in answers if done.part is not None]
        query_id = rows[0]["query"] if rows else ""
        positions = {place: at for done in answers for place, at in done.positions.items()}

        async def decide() -> None:
            if parts:
                await self._decisions.decide(batch_id, parts, query_id, positions)
            await self._decisions.clean_up()

        self._loop.run(decide())
        self.seen |= positions
        self._count(batch_id, answers, self._clock.monotonic() - begun)
        self._showing = self._loop.submit(self._show())
        if self._on_batch is not None:
            self._on_batch(self.progress)

    async def _show(self) -> None:
        """What others see of the group: no batch waits for it."""
        async with self._in_turn:
            await self._group.show(dict(self.seen))

    def _count(self, batch_id: int, answers: Sequence[Done], seconds: float) -> None:
        progress = self.progress
        newest = max((done.counts.newest_ms for done in answers), default=-1)
        records = sum(done.counts.records_in for done in answers)
        self.progress = replace(
            progress,
            batch_id=batch_id,
            batches=progress.batches + 1,
            records_in=progress.records_in + records,
            records_out=progress.records_out + sum(done.counts.records_out for done in answers),
            rows_changed=progress.rows_changed + sum(done.counts.rows_changed for done in answers),
            dropped=progress.dropped + sum(done.counts.dropped for done in answers),
            reasons=dict(sum((Counter(done.counts.reasons) for done in answers), Counter(progress.reasons))),
            dead_letters=progress.dead_letters + sum(done.counts.dead_letters for done in answers),
            batch_seconds=seconds,
            batch_records=records,
            latency_ms=None if newest < 0 else max(self._clock.now_ms() - newest, 0),
            restored_tasks=progress.restored_tasks + sum(done.restored for done in answers),
            positions={**progress.positions, **{k: v for done in answers for k, v in done.positions.items()}},
        )

    def stop(self) -> None:
        if self.query is not None and self.query.isActive:
            self.query.stop()
        if self._showing is not None:
            self._showing.result()
        if self.progress.batches:
            self._group.commit(self.seen)  # once more, where the last time failed
        self._group.leave()

    def __enter__(self) -> "RunningApplication":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(
    program: Program,
    application_id: str,
    spark: "SparkSession",
    checkpoint: str | Path,
    options: StreamsOptions | None = None,
    on_batch: Callable[[Progress], None] | None = None,
    **trigger: Any,
) -> RunningApplication:
    """A program that runs; ``stop`` or the end of ``with`` ends it."""
    options = options or StreamsOptions()
    workers = options.workers or max(spark.sparkContext.defaultParallelism, 1)
    application = prepared(program, application_id, options, workers)
    running = RunningApplication(spark, application, checkpoint, on_batch)
    running.start(**trigger)
    return running


__all__ = ["Progress", "RunningApplication", "StreamsOptions", "WriteOptions", "prepared", "start"]
