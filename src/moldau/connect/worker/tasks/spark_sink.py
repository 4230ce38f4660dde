"""A sink connector as a Spark query: all partitions of its topics at once, on all cores or a whole cluster.

The query reads by ``format("moldau")`` as the group ``connect-NAME`` and gives each partition of a batch to a
sink task of its own, in Spark's Python workers. A batch that Spark runs again after a crash brings the same
records with the same offsets, so that sinks which know offsets (JDBC) or write by key count each record once.

Records that the chain of transforms drops for certain (``early_drops.py``) do not even go to Python.

Invariant: offsets are committed after all tasks of a batch have flushed. Settings and converters are those of
the plain runtime.
"""

import asyncio
import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin
from moldau.client.consumer.consumer import END
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.groups.offset_resets import NewOffsets, within
from moldau.connect.connector import SinkConnector
from moldau.connect.errors import ConfigException, RetriableException
from moldau.connect.worker.settings import WorkerSettings
from moldau.connect.worker.tasks.client_options import group_of
from moldau.connect.worker.tasks.early_drops import ALWAYS, Not, certain_drops, sql_of
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


def check_spark(kind: type[SinkConnector], config: Mapping[str, str], worker: WorkerSettings) -> None:
    """Raises ConfigException for a sink that cannot run as a query."""
    if kind.holds_back and kind.held_back_for is None:
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
        self._folder = checkpoint_folder(worker.given[_CHECKPOINTS], parts.connector)

    async def __call__(self, control: Control) -> None:
        await ensure_dead_letters(self._parts)
        while await control.ready():
            starting = await self._begin()
            query = await asyncio.to_thread(self._start, starting)
            try:
                while not control.paused and not control.stopping.is_set():
                    if not await asyncio.to_thread(_is_active, query):
                        raise _reason(query)
                    await control.rest(_LOOK_SECONDS)
            finally:
                await asyncio.to_thread(query.stop)

    async def _begin(self) -> str:
        """Where a query without a checkpoint begins: where its group is, such as on another worker that has
        the folder of checkpoints no more, or after the sink ran in the worker."""
        from moldau.spark.query.group import MARK

        wanted, cluster = wanted_topics(self._parts.settings), self._parts.cluster
        found = {each.name: each for each in await cluster.topics(None if callable(wanted) else wanted)}
        partitions = [
            TopicPartition(name, each.index)
            for name in (wanted(found) if callable(wanted) else found)
            for each in found[name].partitions
        ]
        try:
            await self._identity.check(partitions)
        except RetriableException:  # a topic was made anew, and the checkpoint is of the old one
            await self._forget_checkpoint()
            raise
        committed = await Groups(cluster).committed(group_of(self._parts.connector, self._parts.settings))
        known = {at: each.offset for at, each in committed.items() if isinstance(each, CommittedOffset)}
        if any(isinstance(each, CommittedOffset) and each.metadata != MARK for each in committed.values()):
            # Somebody has changed offsets. The last batch of the checkpoint might be run again before those
            # count, and its offsets be what a sink keeps then.
            await self._forget_checkpoint()
        inside = NewOffsets()
        await within(Admin(cluster), {at: known[at] for at in partitions if at in known}, inside)
        at_end = self._parts.clients.consumer["offset_reset"] == END
        if not inside.offsets:
            return "latest" if at_end else "earliest"
        starting: dict[str, dict[str, int]] = {}
        for at in partitions:
            starting.setdefault(at.topic, {})[str(at.partition)] = inside.offsets.get(
                at, -1 if at_end else -2
            )
        return json.dumps(starting)

    async def _forget_checkpoint(self) -> None:
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def _start(self, starting: str) -> Any:
        name = self._parts.connector
        session = session_of(self._worker)
        session.sparkContext.setLocalProperty("spark.scheduler.pool", name)
        reader = session.readStream.format("moldau").options(**self._reading(starting))
        kept, most = self._kept(), self._config.get("tasks.max", "").strip()
        write = PartitionWriter(
            self._connector.class_name,
            name,
            dict(self._parts.settings),
            self._config,
            self._worker.bootstrap_servers,
            login_of(self._worker),
        )
        writer = reader.load().writeStream.queryName(f"connect-{name}")
        if (interval := self._connector.held_back_for) is not None:
            writer = writer.trigger(processingTime=f"{self._connector.settings[interval]} milliseconds")
        return (
            writer.option("checkpointLocation", str(self._folder))
            .foreachBatch(lambda frame, batch_id: bounded(frame.where(kept), most).foreachPartition(write))
            .start()
        )

    def _kept(self) -> str:
        """The condition, as SQL, for rows that Python has to look at."""
        topics = wanted_topics(self._parts.settings)
        known = [] if callable(topics) else topics
        dropped = certain_drops(self._parts.processing, self._parts.handling, known)
        if dropped is not None:
            log.info("connector %s: not read by Python: %s", self._parts.connector, dropped)
        return sql_of(ALWAYS if dropped is None else Not(dropped))

    def _reading(self, starting: str) -> dict[str, str]:
        settings = self._parts.settings
        topics, regex = settings.get("topics", "").strip(), settings.get("topics.regex", "").strip()
        options = {
            "kafka.bootstrap.servers": self._worker.bootstrap_servers,
            "group.id": group_of(self._parts.connector, settings),
            "startingOffsets": starting,
            "includeHeaders": "true",
        }
        options |= {f"kafka.{key}": value for key, value in login_of(self._worker).items()}
        return options | ({"subscribe": topics} if topics else {"subscribePattern": regex})


def bounded(frame: Any, tasks_max: str) -> Any:
    """Rows in so many partitions at most, if a number is given."""
    return frame.coalesce(max(int(tasks_max), 1)) if tasks_max else frame


def _is_active(query: Any) -> bool:
    return bool(query.isActive)


def _reason(query: Any) -> Exception:
    error = query.exception()
    return failure_of("the query ended" if error is None else str(error))
