"""What a source reads first, as jobs of Spark: a job for each part, as many at a time as ``tasks.max`` says.

Each part is read, converted and written by a Python worker of Spark, on any core or machine that the session
has; when it is written its place is kept, so that a worker which dies has only the parts to read again that
were cut. When all parts are written, the plain task goes on.

Where sources write in transactions, each of the parts that run at the same time has a transactional id,
numbered on behind the task's own. The worker begins them, which fences whoever had them before, and then
looks at the places again; Spark's processes go on in these epochs, and write the place of a part in the
transaction of its records.

Invariant: no place of a part is kept before its records are written, and the place behind the snapshot not
before all parts are.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

from moldau.client.producer import transactions
from moldau.client.producer.transactions import OpenTransaction
from moldau.connect.connector import Connector, Snapshot, SnapshotPart, SourceConnector, SourceTaskContext
from moldau.connect.worker.settings import WorkerSettings
from moldau.connect.worker.tasks.exactly_once import Transactions, transactional_id
from moldau.connect.worker.tasks.on_spark import failure_of, login_of, runs_on_spark, session_of, whole_config
from moldau.connect.worker.tasks.running_task import Control
from moldau.connect.worker.tasks.snapshot_part import PartRead, PartReader, part_place
from moldau.connect.worker.tasks.source_body import IDLE_SECONDS, Keep
from moldau.connect.worker.tasks.task_parts import TaskParts
from moldau.protocol.errors import KafkaError

log = logging.getLogger("moldau.connect.worker")

#: A part has to be written in this time where it is a transaction: the longest that brokers allow.
_TIMEOUT_MS = 900_000
_LOOK_SECONDS = 0.2


def snapshots_on_spark(connector: type[Connector], config: Mapping[str, str], worker: WorkerSettings) -> bool:
    """Whether a source reads on Spark what it reads first."""
    able = issubclass(connector, SourceConnector) and connector.takes_snapshots
    return able and runs_on_spark(config, worker)


def parts_at_a_time(config: Mapping[str, str]) -> int:
    return max(int(config.get("tasks.max", "1")), 1)


class SparkSnapshots:
    def __init__(
        self, parts: TaskParts, connector: SourceConnector, config: Mapping[str, str], worker: WorkerSettings
    ) -> None:
        self._parts = parts
        self._connector = connector
        self._config = config
        self._worker = worker

    async def __call__(self, keep: Keep, control: Control) -> bool:
        """Takes all snapshots; False where the task is to end before the plain one goes on."""
        parts = self._parts
        task, lanes = self._connector.make_snapshots(), list[_Lane]()
        context = SourceTaskContext(
            parts.connector,
            parts.task,
            lambda partition: parts.offsets.get(parts.connector, partition),
            parts.clock.now_ms,
        )
        await asyncio.to_thread(task.start, parts.settings, context)
        try:
            while await control.ready():
                snapshot = await asyncio.to_thread(task.next)
                if snapshot is None and task.over:
                    return True
                if snapshot is None:
                    await control.rest(IDLE_SECONDS)
                elif not lanes:
                    lanes = await self._lanes()  # and then what is to be read is asked again
                elif await self._take(snapshot, lanes, keep, control):
                    await asyncio.to_thread(task.done, snapshot)
            return False
        finally:
            await asyncio.to_thread(task.stop)

    async def _lanes(self) -> "list[_Lane]":
        """For as many parts as are read at a time. Where they write in transactions, whoever wrote in these
        before is fenced when this returns, and its places are known."""
        count = parts_at_a_time(self._config)
        if not self._worker.exactly_once:
            return [_Lane(self._parts, None) for _ in range(count)]
        names = [transactional_id(self._worker, self._parts.connector, 1 + each) for each in range(count)]
        begun = await asyncio.gather(*(_begin(self._parts, name) for name in names))
        await self._parts.offsets.catch_up(past_open=True)
        return [_Lane(self._parts, transaction) for transaction in begun]

    async def _take(self, snapshot: Snapshot, lanes: "list[_Lane]", keep: Keep, control: Control) -> bool:
        """Whether all of it is written and kept."""
        if snapshot.planned:
            await keep(snapshot.planned)
        if snapshot.parts:
            log.info(
                "connector %s: %d parts of %s are read on Spark, %d at a time",
                self._parts.connector,
                len(snapshot.parts),
                snapshot.name,
                len(lanes),
            )
            jobs = _Jobs(self._parts, self._connector, self._config, self._worker)
            if not await jobs.run(snapshot, lanes, keep, control):
                return False
        if snapshot.reached:
            await keep(snapshot.reached)
        await keep([(partition, None) for partition in snapshot.cleared])
        return True


class _Lane:
    """One part after the other, each in a transaction of its own where sources write in transactions."""

    def __init__(self, parts: TaskParts, transaction: OpenTransaction | None) -> None:
        self._parts = parts
        self.transaction = transaction

    async def written(self, read: PartRead) -> None:
        """The next part gets an epoch in which nothing was written yet."""
        if self.transaction is None or read.identity is None:
            return
        producer_id, epoch = read.identity
        self.transaction = replace(self.transaction, producer_id=producer_id, producer_epoch=epoch)
        if not self.transaction.adds_implicitly:
            cluster = self._parts.cluster
            self.transaction = await transactions.next_epoch(cluster, self.transaction, _TIMEOUT_MS)

    async def cut(self) -> None:
        """What a process may still write of a part is aborted; if that fails, who comes next or time does it.
        Only in the present epoch: a worker that was fenced must not fence the one that goes on."""
        if self.transaction is not None:
            with suppress(KafkaError):
                await transactions.next_epoch(self._parts.cluster, self.transaction, _TIMEOUT_MS)


async def _begin(parts: TaskParts, name: str) -> OpenTransaction:
    return await transactions.begin(parts.cluster, name, timeout_ms=_TIMEOUT_MS, two_phase=False)


class _Jobs:
    """The jobs of one snapshot. After a failure, and while the connector is paused, those that run come to
    their end and no other begins; a task that is to end cuts them off."""

    def __init__(
        self, parts: TaskParts, connector: SourceConnector, config: Mapping[str, str], worker: WorkerSettings
    ) -> None:
        self._parts = parts
        self._connector = connector
        self._config = config
        self._worker = worker
        self._group = f"connect-{parts.connector}"
        self._error: Exception | None = None

    async def run(self, snapshot: Snapshot, lanes: list[_Lane], keep: Keep, control: Control) -> bool:
        """Whether all parts are written and kept; raises the first error that a part met."""
        pending = deque(snapshot.parts)
        # Threads of their own: those of the loop are for the tasks of all connectors.
        pool = ThreadPoolExecutor(len(lanes), thread_name_prefix=self._group)
        try:
            await asyncio.get_running_loop().run_in_executor(pool, session_of, self._worker)
            await asyncio.gather(*(self._drive(lane, pending, pool, keep, control) for lane in lanes))
        finally:
            pool.shutdown(wait=False)
        if self._error is not None and not control.stopping.is_set():
            raise self._error
        return self._error is None and not pending and not control.stopping.is_set()

    async def _drive(
        self,
        lane: _Lane,
        pending: deque[SnapshotPart],
        pool: ThreadPoolExecutor,
        keep: Keep,
        control: Control,
    ) -> None:
        while pending and self._error is None and not control.paused and not control.stopping.is_set():
            part = pending.popleft()
            try:
                read = await self._read(part, lane, pool, control)
                read.raise_error()
                await self._written(part, read, lane, keep)
            except Exception as error:
                self._error = self._error or error
                await lane.cut()

    async def _written(self, part: SnapshotPart, read: PartRead, lane: _Lane, keep: Keep) -> None:
        for topic in read.topics:
            self._parts.saw_topic(topic)
        kept = (part.partition, part_place(part, read.rows))
        if lane.transaction is None:
            await keep([kept])
        else:
            self._parts.offsets.learn(self._parts.connector, [kept])
            await lane.written(read)

    async def _read(
        self, part: SnapshotPart, lane: _Lane, pool: ThreadPoolExecutor, control: Control
    ) -> PartRead:
        reader = self._reader(part, lane.transaction)
        job = asyncio.get_running_loop().run_in_executor(pool, self._job, reader)
        try:
            while not (await asyncio.wait([job], timeout=_LOOK_SECONDS))[0]:
                if control.stopping.is_set():
                    await asyncio.to_thread(self._cancel)
        except asyncio.CancelledError:
            self._cancel()
            raise
        return job.result()

    def _reader(self, part: SnapshotPart, transaction: OpenTransaction | None) -> PartReader:
        parts, worker = self._parts, self._worker
        topic = ""
        if transaction is not None:
            topic = Transactions.of(self._config, worker, parts.connector, parts.task).offsets_topic
        return PartReader(
            self._connector.class_name,
            parts.connector,
            dict(parts.settings),
            whole_config(self._config, worker),
            worker.bootstrap_servers,
            login_of(worker),
            part,
            transaction,
            topic,
        )

    def _job(self, reader: PartReader) -> PartRead:
        """In a thread of its own: what is set here of Spark's properties belongs to it."""
        context: Any = session_of(self._worker).sparkContext
        context.setLocalProperty("spark.scheduler.pool", self._parts.connector)
        context.setJobGroup(self._group, f"a snapshot of {self._parts.connector}", interruptOnCancel=True)
        try:
            (read,) = context.parallelize([0], 1).map(reader).collect()
        except Exception as error:
            raise failure_of(str(error)) from None
        assert isinstance(read, PartRead)
        return read

    def _cancel(self) -> None:
        with suppress(Exception):  # a session that is gone runs nothing
            session_of(self._worker).sparkContext.cancelJobGroup(self._group)
