"""A sink connector as a Spark query: all partitions of its topics at once, on all cores or a whole cluster.

The query reads by ``format("moldau")`` as the group ``connect-NAME`` and gives each partition of a batch to a
sink task of its own, in Spark's Python workers. A batch that Spark runs again after a crash brings the same
records with the same offsets, so that sinks which know offsets (JDBC) or write by key count each record once.

Records that the chain of transforms drops for certain (``early_drops.py``) do not even go to Python.

Invariant: offsets are committed after all tasks of a batch have flushed. Settings and converters are those of
the plain runtime.
"""

import asyncio
import logging
from collections.abc import Mapping
from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.consumer.consumer import END
from moldau.connect.connector import SinkConnector
from moldau.connect.errors import ConfigException
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
from moldau.connect.worker.tasks.on_spark import (
    RUNTIME,
    failure_of,
    login_of,
    session_of,
    whole_config,
)
from moldau.connect.worker.tasks.running_task import Control
from moldau.connect.worker.tasks.sink_body import wanted_topics
from moldau.connect.worker.tasks.spark_write import PartitionWriter
from moldau.connect.worker.tasks.task_parts import TaskParts, ensure_dead_letters
from moldau.connect.worker.tasks.topic_identity import TopicIdentity

log = logging.getLogger("moldau.connect.worker")

_CHECKPOINTS = "moldau.spark.checkpoints"
_LOOK_SECONDS = 0.5
_PUT_RECORDS = 2000


def check_spark(kind: type[SinkConnector], config: Mapping[str, str], worker: WorkerSettings) -> None:
    """Raises ConfigException for a sink that cannot run as a query."""
    if kind.holds_back:
        raise ConfigException(f"This sink holds records back between batches and needs {RUNTIME}=python")
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
        self._identity = TopicIdentity(parts, connector)
        self._config = whole_config(config, worker)
        self._worker = worker

    async def __call__(self, control: Control) -> None:
        await ensure_dead_letters(self._parts)
        while await control.ready():
            await self._check_topics()
            query = await asyncio.to_thread(self._start)
            try:
                while not control.paused and not control.stopping.is_set():
                    if not await asyncio.to_thread(_is_active, query):
                        raise _reason(query)
                    await control.rest(_LOOK_SECONDS)
            finally:
                await asyncio.to_thread(query.stop)

    async def _check_topics(self) -> None:
        wanted, cluster = wanted_topics(self._parts.settings), self._parts.cluster
        found = {each.name: each for each in await cluster.topics(None if callable(wanted) else wanted)}
        await self._identity.check(
            TopicPartition(name, each.index)
            for name in (wanted(found) if callable(wanted) else found)
            for each in found[name].partitions
        )

    def _start(self) -> Any:
        name = self._parts.connector
        session = session_of(self._worker)
        session.sparkContext.setLocalProperty("spark.scheduler.pool", name)
        reader = session.readStream.format("moldau").options(**self._reading())
        kept, most = self._kept(), self._config.get("tasks.max", "").strip()
        folder = checkpoint_folder(self._worker.given[_CHECKPOINTS], name)
        write = PartitionWriter(
            self._connector.class_name,
            name,
            dict(self._parts.settings),
            self._config,
            self._worker.bootstrap_servers,
            login_of(self._worker),
        )
        writer = reader.load().writeStream.queryName(f"connect-{name}")
        return (
            writer.option("checkpointLocation", str(folder))
            .foreachBatch(lambda frame, batch_id: within(frame.where(kept), most).foreachPartition(write))
            .start()
        )

    def _kept(self) -> Any:
        """The condition for rows that Python has to look at."""
        from pyspark.sql import functions

        topics = wanted_topics(self._parts.settings)
        if callable(topics):
            return functions.lit(True)
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


def within(frame: Any, tasks_max: str) -> Any:
    """Rows in so many partitions at most, if a number is given."""
    return frame.coalesce(max(int(tasks_max), 1)) if tasks_max else frame


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


def _is_active(query: Any) -> bool:
    return bool(query.isActive)


def _reason(query: Any) -> Exception:
    error = query.exception()
    return failure_of("the query ended" if error is None else str(error))
