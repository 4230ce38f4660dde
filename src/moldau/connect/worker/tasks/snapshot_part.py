"""One part of a snapshot, read and written by a process that has no worker: Spark's Python worker.

Records take the way of the plain task: the same converters, transforms, handling of errors and producer. In a
transaction, which the worker has begun, the place of the part is written with its records.

Invariant: a failure is a value that the worker decides about. Spark runs nothing again because of it, and a
part in a transaction is not even tried again when Spark wants to: what an attempt before has committed, only
the topic of places knows.
"""

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from moldau.base.clock import SystemClock
from moldau.client.producer.producer import Producer
from moldau.client.producer.transactions import OpenTransaction
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.security import Security
from moldau.connect.connector import Place, SnapshotPart, SourceConnector
from moldau.connect.errors import ConnectException, RetriableException
from moldau.connect.records import SourceRecord
from moldau.connect.worker.offsets import NoOffsets, offset_key, offset_value
from moldau.connect.worker.tasks.client_options import ClientOptions
from moldau.connect.worker.tasks.handling import ErrorHandling
from moldau.connect.worker.tasks.on_spark import no_worker
from moldau.connect.worker.tasks.processing import processing_of
from moldau.connect.worker.tasks.running_task import Control, passes_by_itself
from moldau.connect.worker.tasks.source_body import SourceBody
from moldau.connect.worker.tasks.task_parts import TaskParts
from moldau.connect.worker.tasks.topic_creation import creation_of
from moldau.connect.worker.tasks.traces import trace_of
from moldau.protocol.errors import ErrorCode, KafkaError

_BATCH_RECORDS = 2000


@dataclass(frozen=True, slots=True)
class PartRead:
    """What became of a part."""

    rows: int = 0
    topics: tuple[str, ...] = ()
    #: Of the producer behind the transaction: its id and epoch.
    identity: tuple[int, int] | None = None
    #: Why it was not read.
    error: str | None = None
    passes: bool = False
    code: int | None = None

    @classmethod
    def failed(cls, error: Exception) -> "PartRead":
        code = int(error.code) if isinstance(error, KafkaError) else None
        return cls(error=trace_of(error), passes=passes_by_itself(error), code=code)

    def raise_error(self) -> None:
        if self.error is None:
            return
        if self.code is not None:
            raise KafkaError(ErrorCode(self.code), self.error)
        raise (RetriableException if self.passes else ConnectException)(self.error)


@dataclass(frozen=True, slots=True)
class PartReader:
    """What travels to the process that reads a part."""

    class_name: str
    connector: str
    settings: Mapping[str, str] = field(repr=False)
    config: Mapping[str, str] = field(repr=False)
    bootstrap_servers: str
    login: Mapping[str, str] = field(repr=False)
    part: SnapshotPart
    transaction: OpenTransaction | None
    offsets_topic: str

    def __call__(self, _: object = None) -> PartRead:
        from moldau.spark.session.worker import attempt_number, prepare_worker

        prepare_worker()
        if self.transaction is not None and attempt_number():
            return PartRead(error="An attempt at a part was lost amid its transaction", passes=True)
        try:
            return asyncio.run(self.read())
        except Exception as error:
            return PartRead.failed(error)

    async def read(self) -> PartRead:
        from moldau.connect.connectors.catalogue import CONNECTORS
        from moldau.connect.plugins import Plugins, installed

        kind = Plugins([*CONNECTORS, *installed()]).connector(self.class_name)
        assert kind is not None
        assert issubclass(kind, SourceConnector)
        topics: set[str] = set()
        async with await Cluster.open(
            self.bootstrap_servers, client_id="moldau-connect", security=Security.of(self.login)
        ) as cluster:
            worker = no_worker(self.config)
            parts = TaskParts(
                self.connector,
                0,
                self.settings,
                processing_of(self.config, worker),
                ErrorHandling.of(self.config),
                cluster,
                NoOffsets(),
                SystemClock(),
                topics.add,
                clients=ClientOptions.of(self.config, worker),
                creation=creation_of(self.config, worker),
            )
            body = _PartBody(parts, kind(self.config), self)
            rows, identity = await body.read()
        return PartRead(rows, tuple(topics), identity)


def part_place(part: SnapshotPart, rows: int) -> Place:
    """What is kept of a part that is written."""
    return {**part.place, "rows": rows}


class _PartBody(SourceBody):
    def __init__(self, parts: TaskParts, connector: SourceConnector, reader: PartReader) -> None:
        super().__init__(parts, connector)
        self._reader = reader

    async def _open(self) -> Producer:
        return await Producer.open(
            self._parts.cluster, transaction=self._reader.transaction, **self._parts.clients.producer
        )

    async def read(self) -> tuple[int, tuple[int, int] | None]:
        """How many rows there were, and who writes next in the transactions."""
        task, rows = self._connector.make_snapshots(), 0
        transactional = self._reader.transaction is not None
        async with await self._open() as producer:
            if transactional:
                await producer.begin_transaction()
            await asyncio.to_thread(task.start, self._parts.settings, self._context(producer))
            try:
                records = task.read(self._reader.part.work)

                def batch() -> list[SourceRecord]:
                    return list(itertools.islice(records, _BATCH_RECORDS))

                while found := await asyncio.to_thread(batch):
                    await self._write(producer, found, Control(paused=False))
                    rows += len(found)
            finally:
                await asyncio.to_thread(task.stop)
            if not transactional:
                return rows, None
            await self._write_place(producer, rows)
            await producer.commit_transaction()
            return rows, (producer.identity.producer_id, producer.identity.producer_epoch)

    async def _write_place(self, producer: Producer, rows: int) -> None:
        part = self._reader.part
        key = offset_key(self._parts.connector, part.partition).encode()
        value = offset_value(part_place(part, rows)).encode()
        await producer.send(self._reader.offsets_topic, value, key)

    def _keep_places(self, records: object) -> None:
        """Places of single rows say nothing where others are read at the same time."""
