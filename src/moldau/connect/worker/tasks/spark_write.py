"""What a Python worker of Spark does with one partition of a sink's batch: it converts and transforms
records, gives them to a sink task of its own, and writes dead letters.

A batch that is begun again after a crash brings the same records; what was written of it is written again,
and dead letters are, too.

Invariant: when a partition is done, each of its records was put and flushed, was left out, or is acknowledged
as a dead letter. Good records before a bad one that is not tolerated are put and flushed, too.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from moldau.client.producer.producer import Producer
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.security import Security
from moldau.connect.connector import SinkConnector, SinkTaskContext
from moldau.connect.errors import ConnectException, JavaError
from moldau.connect.records import SinkRecord, TimestampType
from moldau.connect.worker.tasks.client_options import ClientOptions
from moldau.connect.worker.tasks.handling import ErrorHandling, dead_letter, refused_records
from moldau.connect.worker.tasks.on_spark import no_worker
from moldau.connect.worker.tasks.processing import RawRecord, StepFailed, processing_of
from moldau.connect.worker.tasks.task_parts import send

_PUT_RECORDS = 2000


@dataclass(frozen=True, slots=True)
class PartitionWriter:
    """What travels to Spark's Python workers."""

    class_name: str
    connector: str
    settings: Mapping[str, str] = field(repr=False)
    config: Mapping[str, str] = field(repr=False)
    bootstrap_servers: str
    login: Mapping[str, str] = field(repr=False)

    def __call__(self, rows: Iterable[Any]) -> None:
        from moldau.connect.connectors.catalogue import CONNECTORS
        from moldau.connect.plugins import Plugins, installed

        kind = Plugins([*CONNECTORS, *installed()]).connector(self.class_name)
        assert kind is not None
        assert issubclass(kind, SinkConnector)
        raws = map(raw_of, rows)
        first = list(islice(raws, _PUT_RECORDS))
        if first:
            _Writing(self, kind(self.config)).run(first, raws)

    def bury(self, letters: Sequence[RawRecord]) -> None:
        """Writes dead letters; their topic is there."""
        asyncio.run(self._bury(letters))

    async def _bury(self, letters: Sequence[RawRecord]) -> None:
        options = ClientOptions.of(self.config, no_worker(self.config)).producer
        async with (
            await Cluster.open(
                self.bootstrap_servers, client_id="moldau-connect", security=Security.of(self.login)
            ) as cluster,
            await Producer.open(cluster, **options) as producer,
        ):
            for delivery in [await send(producer, letter) for letter in letters]:
                await delivery


class _Writing:
    """One partition of a batch on its way to the task."""

    def __init__(self, whole: PartitionWriter, connector: SinkConnector) -> None:
        self._whole = whole
        self._task = connector.make_task()
        self._class_name = connector.task_class_name
        self._processing = processing_of(whole.config, no_worker(whole.config))
        self._handling = ErrorHandling.of(whole.config)
        self._letters: list[RawRecord] = []
        #: Records that the task could not write.
        self._refused: list[tuple[SinkRecord, JavaError]] = []

    def run(self, raws: list[RawRecord], more: Iterable[RawRecord]) -> None:
        whole, task = self._whole, self._task
        context = SinkTaskContext(
            whole.connector, 0, report=lambda record, error: self._refused.append((record, error))
        )
        try:
            task.start(whole.settings, context)
            while raws:
                self._write(raws)
                raws = list(islice(more, _PUT_RECORDS))
            task.finish()
        finally:
            task.stop()

    def _write(self, raws: Sequence[RawRecord]) -> None:
        """Writes what is made of records, up to one whose failure is not tolerated."""
        found: list[SinkRecord] = []
        end: StepFailed | None = None
        for raw in raws:
            try:
                record = self._processing.incoming(raw)
            except StepFailed as failed:
                if not self._tolerates(failed, raw):
                    end = failed
                    break
            else:
                if record is not None:
                    found.append(record)
        if found:
            self._task.put(found)
            self._task.flush()
            refused, self._refused = self._refused, []
            for said, raw in refused_records(refused, raws, self._class_name):
                if not self._tolerates(said, raw):
                    end = end or said
        if self._letters:
            self._whole.bury(self._letters)
            self._letters.clear()
        if end is not None:
            self._task.finish()
            raise ConnectException("Tolerance exceeded in error handler") from end.error

    def _tolerates(self, failed: StepFailed, raw: RawRecord) -> bool:
        handling, connector = self._handling, self._whole.connector
        handling.report(failed, f"{connector}-0", raw)
        if handling.tolerates_all and handling.dead_letters:
            self._letters.append(dead_letter(failed, raw, handling, connector, 0))
        return handling.tolerates_all


def raw_of(row: Any) -> RawRecord:
    headers = tuple(
        (str(each["key"]), None if each["value"] is None else bytes(each["value"]))
        for each in row["headers"] or ()
    )
    kind = TimestampType.LOG_APPEND_TIME if row["timestampType"] == 1 else TimestampType.CREATE_TIME
    return RawRecord(
        row["topic"],
        row["partition"],
        None if row["key"] is None else bytes(row["key"]),
        None if row["value"] is None else bytes(row["value"]),
        headers,
        None if row["timestamp"] is None else round(row["timestamp"].timestamp() * 1000),
        row["offset"],
        kind,
    )
