"""A sink connector as a Spark query: all partitions of its topics at once, on all cores or a whole cluster.

The query reads by ``format("moldau")`` as the group ``connect-NAME`` and gives each partition of a batch to a
sink task of its own, in Spark's Python workers. A batch that Spark runs again after a crash brings the same
records with the same offsets, so that sinks which know offsets (JDBC) or write by key count each record once.

Records that the chain of transforms drops for certain (``early_drops.py``) do not even go to Python.

Invariant: offsets are committed after all tasks of a batch have flushed. Settings and converters are those of
the plain runtime; dead letters are not written here, and such a configuration is refused.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import Any

from moldau.client.consumer.consumer import END
from moldau.connect.connector import SinkConnector, SinkTaskContext
from moldau.connect.errors import ConfigException, ConnectException
from moldau.connect.records import SinkRecord, TimestampType
from moldau.connect.worker.settings import WorkerSettings
from moldau.connect.worker.tasks.client_options import group_of
from moldau.connect.worker.tasks.early_drops import (
    AllOf,
    AnyOf,
    Condition,
    HasHeader,
    HasHeaders,
    IsNull,
    IsText,
    Not,
    OfTopic,
    certain_drops,
)
from moldau.connect.worker.tasks.handling import ErrorHandling
from moldau.connect.worker.tasks.on_spark import (
    RUNTIME,
    failure_of,
    login_of,
    no_worker,
    session_of,
    whole_config,
)
from moldau.connect.worker.tasks.processing import RawRecord, StepFailed, processing_of
from moldau.connect.worker.tasks.running_task import Control
from moldau.connect.worker.tasks.task_parts import TaskParts

log = logging.getLogger("moldau.connect.worker")

_CHECKPOINTS = "moldau.spark.checkpoints"
_LOOK_SECONDS = 0.5
_PUT_RECORDS = 2000


def check_spark(kind: type[SinkConnector], config: Mapping[str, str], worker: WorkerSettings) -> None:
    """Raises ConfigException for a sink that cannot run as a query."""
    if kind.holds_back:
        raise ConfigException(f"This sink holds records back between batches and needs {RUNTIME}=python")
    if config.get("errors.deadletterqueue.topic.name", "").strip():
        raise ConfigException(f"Dead letters need {RUNTIME}=python")
    if not worker.given.get(_CHECKPOINTS):
        raise ConfigException(f"{RUNTIME}=spark needs {_CHECKPOINTS} in the worker's settings: a folder")


def checkpoint_folder(checkpoints: str, connector: str) -> Path:
    """Below ``checkpoints``, and one for each connector, whatever it is called."""
    name = connector.replace("%", "%25").replace("/", "%2F")
    return Path(checkpoints) / (name if name.strip(".") else name.replace(".", "%2E"))


class SparkSinkBody:
    def __init__(
        self, parts: TaskParts, connector: SinkConnector, config: Mapping[str, str], worker: WorkerSettings
    ) -> None:
        check_spark(type(connector), config, worker)
        self._parts = parts
        self._connector = connector
        self._config = whole_config(config, worker)
        self._worker = worker

    async def __call__(self, control: Control) -> None:
        while await control.ready():
            query = await asyncio.to_thread(self._start)
            try:
                while not control.paused and not control.stopping.is_set():
                    if not await asyncio.to_thread(_is_active, query):
                        raise _reason(query)
                    await control.rest(_LOOK_SECONDS)
            finally:
                await asyncio.to_thread(query.stop)

    def _start(self) -> Any:
        name = self._parts.connector
        session = session_of(self._worker)
        session.sparkContext.setLocalProperty("spark.scheduler.pool", name)
        reader = session.readStream.format("moldau").options(**self._reading())
        kept = self._kept()
        folder = checkpoint_folder(self._worker.given[_CHECKPOINTS], name)
        write = _Write(self._connector.class_name, name, dict(self._parts.settings), self._config)
        writer = reader.load().writeStream.queryName(f"connect-{name}")
        return (
            writer.option("checkpointLocation", str(folder))
            .foreachBatch(lambda frame, batch_id: frame.where(kept).foreachPartition(write))
            .start()
        )

    def _kept(self) -> Any:
        """The condition for rows that Python has to look at."""
        from pyspark.sql import functions

        topics = [name.strip() for name in self._parts.settings.get("topics", "").split(",") if name.strip()]
        dropped = certain_drops(self._parts.processing, self._parts.handling, topics)
        if dropped is None:
            return functions.lit(True)
        log.info("connector %s: not read by Python: %s", self._parts.connector, dropped)
        return ~column_of(dropped)

    def _reading(self) -> dict[str, str]:
        settings = self._parts.settings
        topics, regex = settings.get("topics", "").strip(), settings.get("topics.regex", "").strip()
        options = {
            "kafka.bootstrap.servers": self._worker.bootstrap_servers,
            "group.id": group_of(self._parts.connector, settings),
            "startingOffsets": "latest"
            if self._parts.clients.consumer["offset_reset"] == END
            else "earliest",
            "includeHeaders": "true",
        }
        options |= {f"kafka.{key}": value for key, value in login_of(self._worker).items()}
        return options | ({"subscribe": topics} if topics else {"subscribePattern": regex})


def column_of(condition: Condition) -> Any:
    """A condition on the columns of ``format("moldau")``; it is never null."""
    from pyspark.sql import functions as sql

    match condition:
        case OfTopic(name):
            return sql.col("topic") == name
        case HasHeader(name):
            found = sql.exists("headers", lambda header: header["key"] == name)
            return sql.coalesce(found, sql.lit(False))
        case HasHeaders():
            return sql.coalesce(sql.size("headers") > 0, sql.lit(False))
        case IsNull(side):
            return sql.col(side.value.lower()).isNull()
        case IsText(side):
            text = sql.col(side.value.lower()).cast("string")
            return sql.coalesce(sql.is_valid_utf8(text), sql.lit(True))
        case Not(inner):
            return ~column_of(inner)
        case AllOf(parts):
            return reduce(and_, map(column_of, parts), sql.lit(True))
        case AnyOf(parts):
            return reduce(or_, map(column_of, parts), sql.lit(False))


class _Write:
    """What a Python worker of Spark does with one partition of a batch."""

    def __init__(
        self, class_name: str, connector: str, settings: dict[str, str], config: dict[str, str]
    ) -> None:
        self._class_name = class_name
        self._connector = connector
        self._settings = settings
        self._config = config

    def __call__(self, rows: Iterable[Any]) -> None:
        from moldau.connect.connectors.catalogue import CONNECTORS
        from moldau.connect.plugins import Plugins, installed

        kind = Plugins([*CONNECTORS, *installed()]).connector(self._class_name)
        assert kind is not None
        assert issubclass(kind, SinkConnector)
        task = kind(self._config).make_task()
        started = False
        try:
            for records in self._batches(rows):
                if not started:
                    task.start(self._settings, SinkTaskContext(self._connector, 0))
                    started = True
                task.put(records)
            if started:
                task.flush()
        finally:
            task.stop()

    def _batches(self, rows: Iterable[Any]) -> Iterable[list[SinkRecord]]:
        processing = processing_of(self._config, no_worker(self._config))
        handling = ErrorHandling.of(self._config)
        found: list[SinkRecord] = []
        for row in rows:
            raw = _raw(row)
            try:
                record = processing.incoming(raw)
            except StepFailed as failed:
                handling.report(failed, f"{self._connector}-0", raw)
                if not handling.tolerates_all:
                    raise ConnectException("Tolerance exceeded in error handler") from failed.error
                continue
            if record is not None:
                found.append(record)
            if len(found) >= _PUT_RECORDS:
                yield found
                found = []
        if found:
            yield found


def _raw(row: Any) -> RawRecord:
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


def _is_active(query: Any) -> bool:
    return bool(query.isActive)


def _reason(query: Any) -> Exception:
    error = query.exception()
    return failure_of("the query ended" if error is None else str(error))
