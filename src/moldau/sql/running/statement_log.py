"""Statements that last, in a compacted topic: all shells of a cluster know the same streams and tables.

Invariant: the key of a record is what the statement made, a tombstone takes it away; the catalogue is what
the statements give in the order of their first writing.
"""

import json
from dataclasses import dataclass

from moldau.client import BEGINNING, END, Admin, Cluster, Consumer, NewTopic, Producer, TopicPartition

TOPIC = "_moldau_sql_statements"


@dataclass(frozen=True, slots=True)
class Kept:
    """A statement: the source or the query that it makes, and its place in the order of all."""

    name: str
    number: int
    text: str
    query_id: str | None = None
    state: str = "RUNNING"

    def encoded(self) -> bytes:
        return json.dumps(
            {
                "name": self.name,
                "number": self.number,
                "statement": self.text,
                "query": self.query_id,
                "state": self.state,
            }
        ).encode()


def decoded(data: bytes) -> Kept:
    found = json.loads(data)
    return Kept(found["name"], found["number"], found["statement"], found["query"], found["state"])


class StatementLog:
    def __init__(self, cluster: Cluster, topic: str = TOPIC) -> None:
        self._cluster = cluster
        self._place = TopicPartition(topic, 0)
        #: One behind the last record that was read or written here.
        self.end = 0

    async def load(self) -> list[Kept]:
        """All statements, in order; the topic is made where it is missing."""
        admin = Admin(self._cluster)
        if self._place.topic not in await admin.list_topics():
            topic = NewTopic(self._place.topic, num_partitions=1, configs={"cleanup.policy": "compact"})
            await admin.create_topics([topic])
        kept: dict[bytes, Kept] = {}
        async with Consumer(self._cluster) as consumer:
            ends = await consumer.offsets_of({self._place: END})
            await consumer.assign({self._place: BEGINNING})
            async for batch in consumer.batches(until=ends):
                for record in batch.records():
                    if record.key is None:
                        continue
                    if record.value is None:
                        kept.pop(record.key, None)
                    else:
                        kept[record.key] = decoded(record.value)
        self.end = ends[self._place]
        return sorted(kept.values(), key=lambda each: each.number)

    async def has_more(self) -> bool:
        """Whether somebody else has written since."""
        async with Consumer(self._cluster) as consumer:
            return (await consumer.offsets_of({self._place: END}))[self._place] > self.end

    async def write(self, kept: Kept) -> None:
        await self._send(kept.name, kept.encoded())

    async def remove(self, name: str) -> None:
        await self._send(name, None)

    async def _send(self, name: str, value: bytes | None) -> None:
        async with await Producer.open(self._cluster) as producer:
            sent = await (await producer.send(self._place.topic, value, key=name.encode(), partition=0))
        if sent.offset == self.end:
            self.end += 1  # else somebody wrote in between, and the next refresh reads it
