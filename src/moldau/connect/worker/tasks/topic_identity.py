"""Topics of a sink that were deleted and made again under their names.

A sink that keeps offsets on the other side would take the records of the new topic for ones that it has
written already, and lose them. Which topic its offsets are of is kept where sources keep their places.

Invariant: what a sink keeps of a topic that is gone is forgotten before it gets the first record of the new
one, and it gets none of the old one after that: the task begins again.
"""

import asyncio
from collections.abc import Iterable

from moldau.base.names import ZERO_UUID, TopicPartition, Uuid
from moldau.connect.connector import SinkConnector
from moldau.connect.errors import RetriableException
from moldau.connect.worker.tasks.task_parts import TaskParts


class TopicIdentity:
    def __init__(self, parts: TaskParts, connector: SinkConnector) -> None:
        self._parts = parts
        self._connector = connector
        self._keeps_offsets = type(connector).forget is not SinkConnector.forget
        self._known: dict[TopicPartition, Uuid] = {}

    async def check(self, partitions: Iterable[TopicPartition]) -> None:
        """To be called before a task gets records of these partitions, by the one task that has them.

        Raises RetriableException where the task has to begin again.
        """
        if not self._keeps_offsets:
            return
        for at in partitions:
            found = self._parts.cluster.topic_id(at.topic)
            if found not in (ZERO_UUID, self._known.get(at)):
                await self._learn(at, found.hex())
                self._known[at] = found

    async def _learn(self, at: TopicPartition, topic_id: str) -> None:
        parts, place = self._parts, {"topic": at.topic, "partition": at.partition}
        kept = parts.offsets.get(parts.connector, place)
        if kept is not None and kept.get("topic_id") == topic_id:
            return
        if kept is not None:
            await asyncio.to_thread(self._connector.forget, [at])
        parts.offsets.put(parts.connector, [(place, {"topic_id": topic_id})])
        await parts.offsets.flush()
        if kept is not None:  # what was fetched may still be of the old one
            raise RetriableException(
                f"The topic of {at} was made anew: its records are written from the first"
            )
