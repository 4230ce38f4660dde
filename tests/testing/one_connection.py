"""A small client for tests that want to see single requests: one connection, our own messages."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from moldau.client.transport.connection import Connection
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records import Record, encode_batch
from moldau.testing import Broker

_T = TypeVar("_T")


def ask(broker: Broker, work: Callable[[Connection], Awaitable[_T]]) -> _T:
    """Opens a connection, does the work with it, and closes it."""

    async def run() -> _T:
        connection = await Connection.open("127.0.0.1", broker.port)
        try:
            return await work(connection)
        finally:
            connection.close()
            await connection.wait_closed()

    return asyncio.run(run())


def batch(*values: bytes, **options: Any) -> bytes:
    return bytes(encode_batch([Record(n, 1000, None, value) for n, value in enumerate(values)], **options))


def produce(broker: Broker, topic: str, records: bytes, *, acks: int = -1) -> ProduceRequest:
    topic_id = broker.node.metadata.image.topics_by_name[topic].topic_id
    data = [PartitionProduceData(0, records)]
    return ProduceRequest(None, acks, 30_000, [TopicProduceData(topic, topic_id, data)])


def fetch(broker: Broker, topic: str, offset: int, *, max_wait_ms: int = 0) -> FetchRequest:
    topic_id = broker.node.metadata.image.topics_by_name[topic].topic_id
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic, topic_id, [wanted])]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=topics)


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


async def parked(broker: Broker) -> None:
    """Until the broker has a request that waits."""

    async def look() -> int:
        return len(broker.node.services.purgatory)

    while not await asyncio.to_thread(broker.run, look()):
        pass
