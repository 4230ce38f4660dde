"""Topics of a sink that were deleted and made again under their names.

A sink that keeps offsets on the other side would take the records of the new topic for ones that it has
written already, and lose them; so would one whose rows have offsets as versions. Which topic its offsets are
of is kept where sources keep their places.

Invariant: what a sink keeps of a topic that is gone is forgotten before it gets the first record of the new
one, and it gets none of the old one after that: the task begins again. Nothing is lost in silence.
"""

import asyncio
from collections.abc import Iterable

from moldau.base.names import ZERO_UUID, TopicPartition, Uuid
from moldau.connect.connector import Place, SinkConnector
from moldau.connect.errors import ConnectException, RetriableException
from moldau.connect.worker.tasks.task_parts import TaskParts


class TopicIdentity:
    def __init__(self, parts: TaskParts, connector: SinkConnector) -> None:
        self._parts = parts
        self._connector = connector
        self._keeps_offsets = type(connector).forget is not SinkConnector.forget
        self._asks = self._keeps_offsets or connector.has_offsets_in_rows()
        self._known: dict[TopicPartition, Uuid] = {}

    async def check(self, partitions: Iterable[TopicPartition]) -> None:
        """To be called before a task gets records of these partitions, by the one task that has them.

        Raises RetriableException where the task has to begin again, and ConnectException, once, where the new
        topic cannot take the place of the old one.
        """
        if not self._asks:
            return
        error: ConnectException | None = None
        for at in partitions:
            found = self._parts.cluster.topic_id(at.topic)
            if found not in (ZERO_UUID, self._known.get(at)):
                error = await self._learn(at, found.hex()) or error
                self._known[at] = found
        if error is not None:
            raise error

    async def _learn(self, at: TopicPartition, topic_id: str) -> ConnectException | None:
        kept = self._parts.offsets.get(self._parts.connector, _place(at))
        if kept is not None and kept.get("topic_id") == topic_id:
            return None
        if kept is None or self._keeps_offsets:
            if kept is not None:
                await asyncio.to_thread(self._connector.forget, [at])
            await self._keep([at], topic_id)
            # What was fetched may still be of the old one.
            said = f"The topic of {at} was made anew: it is written from its beginning"
            return None if kept is None else RetriableException(said)
        known = await self._parts.cluster.topic(at.topic)
        await self._keep([TopicPartition(at.topic, each.index) for each in known.partitions], topic_id)
        return ConnectException(
            f"The topic {at.topic} was made anew. What was written of the old one has offsets as versions "
            "and would hide new records. Next: remove it, or choose another place, and restart the task"
        )

    async def _keep(self, partitions: Iterable[TopicPartition], topic_id: str) -> None:
        places = [(_place(at), {"topic_id": topic_id}) for at in partitions]
        self._parts.offsets.put(self._parts.connector, places)
        await self._parts.offsets.flush()


def _place(at: TopicPartition) -> Place:
    return {"topic": at.topic, "partition": at.partition}
