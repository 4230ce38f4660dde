"""A source task that writes records and their places in one transaction (KIP-618).

A transaction ends with each poll, after some time, or where the connector says so. Whoever ran the task
before is fenced by its transactional id, ``GROUP-CONNECTOR-TASK``, before places are read: what it had open
is aborted, and what it committed is known.

Invariant: a reader of committed records sees each record whose place is kept, and no other.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from moldau.client.producer import transactions
from moldau.client.producer.producer import Producer
from moldau.client.transport.cluster import Cluster
from moldau.connect.connector import Place, SourceConnector, TransactionBoundaries
from moldau.connect.errors import ConnectException
from moldau.connect.records import SourceRecord
from moldau.connect.worker.offsets import offset_key, offset_value
from moldau.connect.worker.settings import WorkerSettings
from moldau.connect.worker.tasks.running_task import Control
from moldau.connect.worker.tasks.source_body import First, SourceBody
from moldau.connect.worker.tasks.task_parts import TaskParts
from moldau.protocol.errors import ErrorCode, KafkaError

_TIMEOUT_MS = 60_000
_LONGEST_TIMEOUT_MS = 900_000
_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
#: How long a fenced task waits for word that another worker has its connector, before it calls itself failed.
_WORD_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Transactions:
    """How a task of a source writes."""

    transactional_id: str
    #: poll, interval or connector.
    boundary: str
    interval_ms: int
    offsets_topic: str

    @classmethod
    def of(
        cls, config: Mapping[str, str], worker: WorkerSettings, connector: str, task: int
    ) -> "Transactions":
        interval = config.get("transaction.boundary.interval.ms")
        return cls(
            transactional_id(worker, connector, task),
            config.get("transaction.boundary", "poll").lower(),
            int(interval) if interval else worker.offset_flush_interval_ms,
            config.get("offsets.storage.topic") or worker.given["offset.storage.topic"],
        )

    @property
    def timeout_ms(self) -> int:
        """A transaction that time ends must not be ended by its timeout."""
        if self.boundary != "interval":
            return _TIMEOUT_MS
        return min(max(_TIMEOUT_MS, 2 * self.interval_ms), _LONGEST_TIMEOUT_MS)


def transactional_id(worker: WorkerSettings, connector: str, task: int) -> str:
    return f"{worker.identity}-{connector}-{task}"


async def fence(cluster: Cluster, worker: WorkerSettings, connector: str, count: int) -> None:
    """Ends what tasks of a connector may still write: nothing of theirs is committed from now on."""
    names = [transactional_id(worker, connector, task) for task in range(count)]
    await asyncio.gather(
        *(transactions.begin(cluster, name, timeout_ms=_TIMEOUT_MS, two_phase=False) for name in names)
    )


class ExactlyOnceBody(SourceBody):
    def __init__(
        self,
        parts: TaskParts,
        connector: SourceConnector,
        writes: Transactions,
        first: First | None = None,
    ) -> None:
        super().__init__(parts, connector, first)
        self._writes = writes
        self._boundaries = TransactionBoundaries() if writes.boundary == "connector" else None
        #: Places of records in the transaction that is open.
        self._places: dict[str, tuple[Place, Place | None]] = {}
        self._began = 0.0

    async def __call__(self, control: Control) -> None:
        self._places = {}
        try:
            await super().__call__(control)
        except KafkaError as error:
            if error.code not in _FENCED:
                raise
            await control.rest(_WORD_SECONDS)
            if not control.stopping.is_set():
                raise

    async def _open(self) -> Producer:
        parts, writes = self._parts, self._writes
        producer = await Producer.open(
            parts.cluster,
            transactional_id=writes.transactional_id,
            transaction_timeout_ms=writes.timeout_ms,
            **parts.clients.producer,
        )
        try:
            await parts.offsets.catch_up(past_open=True)
        except BaseException:
            await producer.close(flush=False)
            raise
        return producer

    async def _ready(self, producer: Producer, control: Control) -> bool:
        # Where the connector says when transactions end, one that is open is not ended for it: closing the
        # producer aborts it, and its records come again.
        if self._boundaries is None and (control.paused or control.stopping.is_set() or self._is_time()):
            await self._commit(producer)
        return await control.ready()

    def _is_time(self) -> bool:
        return (asyncio.get_running_loop().time() - self._began) * 1000 >= self._writes.interval_ms

    async def _write(self, producer: Producer, records: Sequence[SourceRecord], control: Control) -> None:
        done = 0
        ends = [] if self._boundaries is None else self._boundaries.take(records)
        for end, commits in ends:
            await self._write_some(producer, records[done:end], control)
            await (self._commit(producer) if commits else self._abort(producer))
            done = end
        await self._write_some(producer, records[done:], control)
        if self._writes.boundary == "poll":
            await self._commit(producer)

    async def _write_some(
        self, producer: Producer, records: Sequence[SourceRecord], control: Control
    ) -> None:
        if records:
            await self._begin(producer)
            await super()._write(producer, records, control)

    async def _begin(self, producer: Producer) -> None:
        if not producer.in_transaction:
            await producer.begin_transaction()
            self._began = asyncio.get_running_loop().time()

    async def _commit(self, producer: Producer) -> None:
        """Ends the transaction, with the places of its records in it."""
        places = self._places
        if places:
            await self._begin(producer)
        elif not producer.in_transaction:
            return
        for key, (_, place) in places.items():
            value = None if place is None else offset_value(place).encode()
            await producer.send(self._writes.offsets_topic, value, key.encode())
        await producer.commit_transaction()
        self._places = {}
        self._parts.offsets.learn(self._parts.connector, places.values())

    async def _abort(self, producer: Producer) -> None:
        """Nobody sees the records, and they do not come again."""
        if producer.in_transaction:
            await producer.abort_transaction()
        await self._commit(producer)

    def _note_places(self, places: Iterable[tuple[Place, Place | None]]) -> None:
        for partition, place in places:
            self._places[offset_key(self._parts.connector, partition)] = (partition, place)

    async def _keep(self, producer: Producer, places: Sequence[tuple[Place, Place | None]]) -> None:
        if self._boundaries is not None and producer.in_transaction:
            raise ConnectException("A place cannot be kept amid a transaction that the connector ends")
        self._note_places(places)
        await self._commit(producer)
