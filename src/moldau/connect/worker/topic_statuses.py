"""Statuses in a topic that all workers share: each writes what it does, and reads what the others do.

Invariant: of the states of connectors that run here, what this worker knows counts; the topic only echoes it.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from moldau.base.clock import Clock
from moldau.client.transport.cluster import Cluster
from moldau.connect.worker.compacted_topic import CompactedTopic
from moldau.connect.worker.status_records import TopicUse, read_status, status_record, topic_record
from moldau.connect.worker.statuses import Status, Statuses
from moldau.protocol.errors import KafkaError

log = logging.getLogger("moldau.connect.worker")


class TopicStatuses:
    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partitions: int,
        replicas: int,
        worker_id: str,
        generation: Callable[[], int],
        clock: Clock,
    ) -> None:
        self.statuses = Statuses(self._changed, self._topic_changed)
        self._topic = CompactedTopic(cluster, topic, partitions, replicas, self._apply)
        self._worker_id = worker_id
        self._generation = generation
        self._clock = clock
        #: Whether a connector runs here.
        self.runs_here: Callable[[str], bool] = lambda name: False
        self._waiting: asyncio.Queue[tuple[bytes, bytes | None]] = asyncio.Queue()
        self._writing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self._topic.open()
        self._writing = asyncio.create_task(self._write(), name="connect-statuses")

    async def close(self) -> None:
        """Writes what is left, then ends."""
        await self._waiting.join()
        if self._writing is not None:
            self._writing.cancel()
            with suppress(asyncio.CancelledError):
                await self._writing
        await self._topic.close()

    def _changed(self, connector: str, task: int | None, status: Status | None) -> None:
        self._waiting.put_nowait(status_record(connector, task, status, self._generation()))

    def _topic_changed(self, connector: str, topic: str, task: int | None) -> None:
        now = None if task is None else self._clock.now_ms()
        self._waiting.put_nowait(topic_record(connector, topic, task or 0, now))

    def _apply(self, key: bytes, value: bytes | None) -> None:
        change = read_status(key, value)
        if isinstance(change, TopicUse):  # any worker may be asked to forget a topic
            self.statuses.learn_topic(*change)
        elif change is not None and not self.runs_here(change.connector):
            self.statuses.learn(*change)

    async def _write(self) -> None:
        while True:
            key, value = await self._waiting.get()
            try:
                await self._topic.write(key, value)
                await self._topic.flush()
            except KafkaError as error:
                log.warning("a status could not be written: %s", error)
            finally:
                self._waiting.task_done()
