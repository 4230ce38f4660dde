"""Places of a connector that has a topic of its own for them (``offsets.storage.topic``).

Invariant: its own topic counts; the worker's topic gets a copy, and is asked for what the own one never had.
"""

from collections.abc import Iterable

from moldau.connect.connector import Place
from moldau.connect.worker.offsets import OffsetStore, offset_key
from moldau.connect.worker.topic_offsets import TopicOffsets


class OwnOffsets:
    def __init__(self, own: TopicOffsets, workers: OffsetStore) -> None:
        self._own = own
        self._workers = workers

    async def open(self) -> None:
        await self._own.topic.open()

    async def close(self) -> None:
        await self._own.topic.close()

    def get(self, connector: str, partition: Place) -> Place | None:
        found = self._own.get(connector, partition)
        return self._workers.get(connector, partition) if found is None else found

    def kept(self, connector: str, partition: Place) -> Place | None:
        found = self._own.kept(connector, partition)
        return self._workers.kept(connector, partition) if found is None else found

    def of(self, connector: str) -> list[tuple[Place, Place]]:
        merged = {
            offset_key(connector, partition): (partition, offset)
            for store in (self._workers, self._own)
            for partition, offset in store.of(connector)
        }
        return list(merged.values())

    def put(self, connector: str, offsets: Iterable[tuple[Place, Place | None]]) -> None:
        known = list(offsets)
        self._own.put(connector, known)
        self._workers.put(connector, known)

    def forget(self, connector: str) -> None:
        self.put(connector, [(partition, None) for partition, _ in self.of(connector)])

    def learn(self, connector: str, offsets: Iterable[tuple[Place, Place | None]]) -> None:
        known = list(offsets)
        self._own.learn(connector, known)
        self._workers.put(connector, known)

    async def flush(self) -> None:
        await self._own.flush()
        await self._workers.flush()

    async def catch_up(self, *, past_open: bool = False) -> None:
        await self._own.catch_up(past_open=past_open)
        await self._workers.catch_up()
