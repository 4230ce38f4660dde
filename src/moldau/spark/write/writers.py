"""Batch and streaming writes: tasks write, the driver commits.

Invariant: with at-least-once what a task has written stays, also when the job fails later; with
exactly-once nothing is visible before the driver's decision, and everything after it.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from moldau.client.producer import transactions
from moldau.spark.background_loop import connect
from moldau.spark.options import WriteOptions
from moldau.spark.query.user_errors import shorten_user_errors
from moldau.spark.record_columns import check_columns
from moldau.spark.session.worker import prepare_worker
from moldau.spark.write.exactly_once import Decisions, Part, end_all, transactional_id

if TYPE_CHECKING:
    from moldau.spark.typed.write import WritePlan


@dataclass
class Written(WriterCommitMessage):
    """What a task reports to the driver: how many rows, and the open transaction that they are in."""

    rows: int
    part: Part | None = None
    #: Spark's id of the streaming query; empty for a batch write.
    query_id: str = ""


def write_task(
    options: WriteOptions, batches: Iterator[Any], query: str | None, plan: "WritePlan | None" = None
) -> Written:
    """Writes what one task has; under a transaction of its own where a ``query`` is named."""
    from moldau.spark.jvm.shared_rows import are_notes
    from moldau.spark.write.task_writer import TaskWriter

    prepare_worker()
    context = TaskContext.get()
    query_id = (context.getLocalProperty("sql.streaming.queryId") if context is not None else None) or ""
    loop = connect(options.cluster)
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return Written(0, query_id=query_id)
    transaction = None
    if query is not None:
        assert context is not None, "a task runs in a task"
        slot = transactional_id(query, context.partitionId(), context.attemptNumber())
        transaction = loop.run(transactions.begin(loop.cluster, slot))
    writer = TaskWriter(loop, options, transaction)
    try:
        encoding = None if plan is None else plan.encoding()
        if are_notes(first):
            assert encoding is None, "typed values come as columns"
            writer.write_shared(itertools.chain((first,), batches))
        else:
            for batch in itertools.chain((first,), batches):
                writer.write(batch if encoding is None else encoding.batch(batch))
        rows = writer.finish()
        writer.done()
    finally:
        writer.close()
    if transaction is None:
        return Written(rows)
    part = Part(transaction.transactional_id, *transaction.identity, rows)
    return Written(rows, part, query_id)


def parts_of(messages: Sequence[WriterCommitMessage | None]) -> list[Part]:
    """The open transactions of the tasks that came to their end; a task that failed left no message."""
    return [m.part for m in messages if isinstance(m, Written) and m.part is not None]


def query_id_of(messages: Sequence[WriterCommitMessage | None]) -> str:
    return next((m.query_id for m in messages if isinstance(m, Written) and m.query_id), "")


def open_decisions(options: WriteOptions, query: str) -> Decisions:
    """Before tasks begin: fences other drivers of the query and carries out what was decided last.

    Tasks use the transactional ids of earlier tasks again, so no decided transaction may still be open.
    """
    loop = connect(options.cluster)

    async def work() -> Decisions:
        decisions = await Decisions.open(loop.cluster, query)
        await decisions.finish_last()
        return decisions

    return loop.run(work())


def decide(
    options: WriteOptions, decisions: Decisions, batch_id: int, parts: Sequence[Part], query_id: str = ""
) -> None:
    """After the tasks: the decision, its carrying out, and the end of whatever else was tried."""

    async def work() -> None:
        await decisions.decide(batch_id, parts, query_id)
        await decisions.clean_up()

    connect(options.cluster).run(work())


def numbered(job_id: str) -> tuple[str, int]:
    """``counts#7`` is run 7 of the job ``counts``: numbers grow, and one that is not new writes nothing.

    A job without a number runs once.
    """
    job, sign, number = job_id.rpartition("#")
    return (job, int(number)) if sign and number.isdigit() else (job_id, 0)


class TopicWriter(DataSourceArrowWriter):
    @shorten_user_errors
    def __init__(
        self, options: WriteOptions, names: tuple[str, ...], plan: "WritePlan | None" = None
    ) -> None:
        if plan is None:
            check_columns(list(names), topic_given=options.topic is not None)
        self._options = options
        self._plan = plan
        job, self._number = numbered(options.job_id or "")
        self._query = f"job-{job}"
        #: Whether an earlier run under the same job id has written everything.
        self._done = False
        self._decisions: Decisions | None = None
        if options.exactly_once:
            self._decisions = open_decisions(options, self._query)
            last = self._decisions.last
            self._done = last is not None and last.batch_id >= self._number

    def __getstate__(self) -> dict[str, Any]:
        """What travels to tasks: they write, and have nothing to decide."""
        return {**self.__dict__, "_decisions": None}

    @shorten_user_errors
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        if self._done:
            return Written(0)
        query = self._query if self._options.exactly_once else None
        return write_task(self._options, iterator, query, self._plan)

    @shorten_user_errors
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._options.exactly_once and not self._done:
            decisions = self._decisions or open_decisions(self._options, self._query)
            decide(self._options, decisions, self._number, parts_of(messages))

    @shorten_user_errors
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if parts := parts_of(messages):
            loop = connect(self._options.cluster)
            loop.run(end_all(loop.cluster, parts, commit=False))


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """Created on the driver for the plan and again for the commit of each batch; nothing is kept between."""

    @shorten_user_errors
    def __init__(
        self, options: WriteOptions, names: tuple[str, ...], query: str, plan: "WritePlan | None" = None
    ) -> None:
        if plan is None:
            check_columns(list(names), topic_given=options.topic is not None)
        self._options = options
        self._query = query
        self._plan = plan
        self._decisions = open_decisions(options, query) if options.exactly_once else None

    def __getstate__(self) -> dict[str, Any]:
        """What travels to tasks: they write, and have nothing to decide."""
        return {**self.__dict__, "_decisions": None}

    @shorten_user_errors
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        query = self._query if self._options.exactly_once else None
        return write_task(self._options, iterator, query, self._plan)

    @shorten_user_errors
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if self._options.exactly_once:
            decisions = self._decisions or open_decisions(self._options, self._query)
            decide(self._options, decisions, batchId, parts_of(messages), query_id_of(messages))

    @shorten_user_errors
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if parts := parts_of(messages):
            loop = connect(self._options.cluster)
            loop.run(end_all(loop.cluster, parts, commit=False))
