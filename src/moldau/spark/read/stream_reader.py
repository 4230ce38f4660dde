"""A streaming read: offsets of each micro-batch on the driver, the same ranges as a batch read in the tasks.

Invariant: offsets have the form of Spark's own connector, so that progress events look the same. Only
``latestOffset`` decides what a batch reads; a batch that is run again reads the same offsets.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from moldau.base.clock import SystemClock
from moldau.base.names import TopicPartition
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.spark.background_loop import connect
from moldau.spark.options import DEFAULT_CLIENT_ID, OptionError, ReadOptions
from moldau.spark.query.group import QueryGroup
from moldau.spark.query.name import QueryName, answer, query_of_job
from moldau.spark.query.user_errors import shorten_user_errors
from moldau.spark.read.batch_reader import Output, RangePartition, read_range
from moldau.spark.read.damage import DataLoss
from moldau.spark.read.listing import list_offsets, partitions_of, resolve
from moldau.spark.read.offsets import EARLIEST, LATEST, Progress, offsets_to_json
from moldau.spark.read.planning import admit, ranges_between, split

log = logging.getLogger("moldau.spark")

Offsets = dict[TopicPartition, int]
#: How old the list of partitions may be: micro-batches come several times a second.
_PARTITIONS_SECONDS = 1.0


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions, output: Output) -> None:
        self._options = options
        self._output = output
        #: Where ``availableNow`` ends; None while the stream goes on.
        self._target: Offsets | None = None
        self._group: QueryGroup | None = None
        self._name: QueryName | None = None
        #: Whether the query goes on from a checkpoint; a new one begins where its options say.
        self._resumed = True
        #: What there is to read, and when that was asked; and where it ended when that was asked last.
        self._partitions: list[TopicPartition] = []
        self._partitions_at = -_PARTITIONS_SECONDS - 1
        self._newest: Offsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What travels to tasks: they read ranges, and have nothing to do with the group."""
        return {**self.__dict__, "_group": None, "_name": None}

    # On the driver.

    @shorten_user_errors
    def initialOffset(self) -> dict[str, Any]:
        options = self._options
        loop = connect(options.cluster)

        async def work() -> Offsets:
            partitions = await partitions_of(loop.cluster, options)
            return await resolve(loop.cluster, partitions, options.start, options, "startingOffsets")

        self._resumed = False
        name = self._naming()
        query = "" if name is None else name.text
        return Progress(loop.run(work()), query=query, schema=self._inferred).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._latest()

    @shorten_user_errors
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        before = Progress.from_json(start)
        self._check_inferred(before.schema)
        starts = before.ends
        name = self._naming()
        if name is not None:
            name.resume(before.query)
            if name.learn() and self._group is not None and self._options.group_id is None:
                self._group.leave()  # the query has another name since its last run
                self._group, self._resumed = None, False
        resets = self._resets(starts)
        self._show_progress(starts if not resets else {})
        ends = self._latest() if self._target is None else self._target
        # A partition that is gone, or whose leader lags, keeps its offset.
        ends = {**starts, **{tp: max(end, starts.get(tp, 0)) for tp, end in ends.items()}}
        begins = {**self._beginnings(set(ends) - set(starts)), **starts, **resets}
        if isinstance(limit, ReadMaxRows):
            ends = admit(begins, ends, limit.max_rows)
        elif isinstance(limit, ReadMaxBytes):
            ends = admit(begins, ends, max(limit.max_bytes // self._mean_size(begins, ends), 1))
        # Spark takes a different text for new data: without records it must not change.
        same = ends == starts and not resets
        query = before.query if name is None or same else name.text
        return Progress(ends, resets, query, before.schema if same else self._inferred).to_json()

    @shorten_user_errors
    def commit(self, end: dict[str, Any]) -> None:
        self._show_progress(Progress.from_json(end).ends)

    def stop(self) -> None:
        if self._group is not None:
            self._group.leave()

    def _resets(self, starts: Offsets) -> Offsets:
        """Offsets to which the group was reset while the query did not run."""
        query = None if self._name is None else self._name.known
        group_id = self._options.group_id or ("" if query is None else query.name)
        if not group_id or self._group is not None:
            return {}
        self._group = QueryGroup(connect(self._options.cluster), group_id, query=query)
        if not self._resumed:
            return {}
        try:
            found = self._group.resets(starts)
        except KafkaError as error:
            if self._options.group_id is not None:
                raise
            # The user did not ask for this group: without permission to use it, the query goes on.
            log.warning("group %s does not show the query's progress: %s", group_id, error)
            return {}
        return {tp: offset for tp, offset in found.items() if offset != starts[tp]}

    def _naming(self) -> QueryName | None:
        """How the query's name is found out; None where nothing shows it."""
        options = self._options
        named = options.group_id is not None and options.cluster.client_id != DEFAULT_CLIENT_ID
        if self._name is None and options.group_id != "" and not named:
            self._name = QueryName(connect(options.cluster))
        return self._name

    def _show_progress(self, offsets: Offsets) -> None:
        if self._group is not None and offsets:
            self._group.commit(offsets)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """For progress events: what there was when the batch was planned; to ask again would cost time."""
        return offsets_to_json(self._latest() if self._newest is None else self._newest)

    @shorten_user_errors
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        options = self._options
        before, after = Progress.from_json(start), Progress.from_json(end)
        self._check_inferred(after.schema)
        ends = after.ends
        starts = {**self._beginnings(set(ends) - set(before.ends)), **before.ends, **after.resets}
        self._check_loss(starts, ends)
        ranges = ranges_between(starts, ends)
        wanted = split(ranges, options.min_partitions, options.max_records_per_partition)
        planned = [RangePartition(each) for each in wanted]
        if planned and (name := self._naming()) is not None:
            name.resume(after.query)
            planned[0].question = name.question()
        return planned

    @property
    def _inferred(self) -> str:
        return "" if self._output.plan is None else self._output.plan.inferred

    def _check_inferred(self, before: str) -> None:
        """A query that goes on has the columns that it began with, or its user decides on others."""
        now = self._inferred
        if before and now and before != now:
            raise OptionError(
                f"records look different from when this query began: it began with {before}, and infer finds "
                f"{now} now. Set the one or the other as an option, and the query goes on with it"
            )

    def _latest(self) -> Offsets:
        loop = connect(self._options.cluster)
        clock = SystemClock()

        async def work() -> Offsets:
            if clock.monotonic() - self._partitions_at > _PARTITIONS_SECONDS:
                self._partitions = await partitions_of(loop.cluster, self._options)
                self._partitions_at = clock.monotonic()
            wanted = dict.fromkeys(self._partitions, LATEST)
            return await list_offsets(loop.cluster, wanted, committed=self._options.read_committed)

        try:
            self._newest = loop.run(work())
        except KafkaError as error:
            if error.code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
                raise
            self._partitions_at = -_PARTITIONS_SECONDS - 1  # it was deleted, or created again, a moment ago
            self._newest = loop.run(work())
        return self._newest

    def _beginnings(self, partitions: set[TopicPartition]) -> Offsets:
        """Partitions that came while the query ran are read from their first record."""
        if not partitions:
            return {}
        loop = connect(self._options.cluster)
        wanted = dict.fromkeys(partitions, EARLIEST)
        return loop.run(list_offsets(loop.cluster, wanted, committed=self._options.read_committed))

    def _check_loss(self, starts: Offsets, ends: Offsets) -> None:
        """Says on the driver, before tasks run, what is gone."""
        behind = {tp for tp, start in starts.items() if ends.get(tp, start) > start}
        if not self._options.fail_on_data_loss or not behind:
            return
        try:
            firsts = self._beginnings(behind)
        except KafkaError as error:
            raise DataLoss(f"{error}: was the topic deleted while the query was to read it?") from None
        for tp, first in firsts.items():
            if first > starts[tp]:
                raise DataLoss(
                    f"records {starts[tp]} to {first - 1} of {tp} are gone before this query has read them "
                    "(retention, or DeleteRecords); failOnDataLoss=false passes over holes"
                )

    def _mean_size(self, begins: Offsets, ends: Offsets) -> int:
        """About how many bytes a record takes, from the first ones that wait."""
        from moldau.spark.read.sampling import mean_record_size

        return mean_record_size(connect(self._options.cluster), begins, ends, self._options)

    # In a task.

    @shorten_user_errors
    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, RangePartition)
        if partition.question is not None and (context := TaskContext.get()) is not None:
            properties = map(context.getLocalProperty, ("sql.streaming.queryId", "spark.job.description"))
            wanted, loop = partition.wanted, connect(self._options.cluster)
            place = TopicPartition(wanted.topic, wanted.partition)
            answer(loop, partition.question, query_of_job(*properties), place, wanted.start)
        return read_range(partition.wanted, self._options, self._output)
