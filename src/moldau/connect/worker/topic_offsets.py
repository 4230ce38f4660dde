"""Places of sources in a topic that all workers share, in the format of Kafka's.

Invariant: a source that moves to another worker begins where the last one wrote that it was.
"""

import asyncio
import json
from collections.abc import Iterable

from moldau.client.transport.cluster import Cluster
from moldau.connect.connector import Place
from moldau.connect.worker.compacted_topic import CompactedTopic
from moldau.connect.worker.offsets import offset_key, offset_value


class TopicOffsets:
    def __init__(self, cluster: Cluster, topic: str, partitions: int, replicas: int) -> None:
        self.topic = CompactedTopic(cluster, topic, partitions, replicas, self._apply)
        self._known: dict[str, str] = {}
        #: What was put here and is not in the topic yet.
        self._waiting: dict[str, str | None] = {}
        self._turn = asyncio.Lock()

    def _apply(self, key: bytes, value: bytes | None) -> None:
        name = _normal(key)
        if name is None:
            return
        if value is None:
            self._known.pop(name, None)
        else:
            self._known[name] = value.decode("utf-8", "replace")

    def get(self, connector: str, partition: Place) -> Place | None:
        key = offset_key(connector, partition)
        found = self._waiting[key] if key in self._waiting else self._known.get(key)
        return None if found is None else _place(found)

    def kept(self, connector: str, partition: Place) -> Place | None:
        found = self._known.get(offset_key(connector, partition))
        return None if found is None else _place(found)

    def of(self, connector: str) -> list[tuple[Place, Place]]:
        merged: dict[str, str | None] = {**self._known, **self._waiting}
        found: list[tuple[Place, Place]] = []
        for key, value in merged.items():
            name, partition = json.loads(key)
            if name == connector and value is not None:
                found.append((partition, _place(value)))
        return found

    def put(self, connector: str, offsets: Iterable[tuple[Place, Place | None]]) -> None:
        for partition, offset in offsets:
            key = offset_key(connector, partition)
            value = None if offset is None else offset_value(offset)
            if key in self._waiting or self._known.get(key) != value:
                self._waiting[key] = value

    def forget(self, connector: str) -> None:
        self.put(connector, [(partition, None) for partition, _ in self.of(connector)])

    async def catch_up(self, *, past_open: bool = False) -> None:
        await self.topic.catch_up(past_open=past_open)

    def learn(self, connector: str, offsets: Iterable[tuple[Place, Place | None]]) -> None:
        for partition, offset in offsets:
            if offset is None:
                self._known.pop(offset_key(connector, partition), None)
            else:
                self._known[offset_key(connector, partition)] = offset_value(offset)

    async def flush(self) -> None:
        async with self._turn:
            waiting = dict(self._waiting)
            for key, value in waiting.items():
                await self.topic.write(key.encode(), None if value is None else value.encode())
            await self.topic.flush()
            for key, value in waiting.items():
                if value is None:
                    self._known.pop(key, None)
                else:
                    self._known[key] = value
                if self._waiting.get(key) == value:
                    del self._waiting[key]


def _normal(key: bytes) -> str | None:
    """A key as this worker writes it, whatever blanks another one put into it."""
    try:
        found = json.loads(key)
    except ValueError:
        return None
    if not isinstance(found, list) or len(found) != 2 or not isinstance(found[1], dict):
        return None
    return offset_key(str(found[0]), found[1])


def _place(text: str) -> Place:
    found = json.loads(text)
    return found if isinstance(found, dict) else {}
