"""One probe: a record to every partition of a topic, read back from there, timed.

Invariant: never waits longer than it is told to; what did not come back is a failure with a reason.
"""

import asyncio
import os
from dataclasses import dataclass, field
from typing import Any

from moldau.base.clock import stopwatch
from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import NewTopic
from moldau.client.consumer.consumer import END, Consumer
from moldau.client.producer.producer import Producer
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError


@dataclass(slots=True)
class Probed:
    """What became of one partition's record; times in milliseconds."""

    broker: int
    write_ms: float = 0.0
    total_ms: float = 0.0
    error: str | None = "it did not come back in time"


@dataclass(slots=True)
class ProbeOutcome:
    partitions: dict[TopicPartition, Probed] = field(default_factory=dict)

    @property
    def well(self) -> bool:
        return bool(self.partitions) and all(each.error is None for each in self.partitions.values())

    def described(self) -> dict[str, Any]:
        shown = [
            {"partition": str(place), "broker": each.broker, "error": each.error}
            | {"write_ms": round(each.write_ms, 3), "total_ms": round(each.total_ms, 3)}
            for place, each in sorted(self.partitions.items())
        ]
        return {"ok": self.well, "partitions": shown}


async def probe_once(cluster: Cluster, topic: str, seconds: float, retention_ms: int) -> ProbeOutcome:
    """KafkaError when the topic can be neither found nor made."""
    await _make_topic(cluster, topic, retention_ms)
    (described,) = await cluster.topics([topic])
    outcome = ProbeOutcome(
        {TopicPartition(topic, each.index): Probed(each.leader_id) for each in described.partitions}
    )
    token = os.urandom(16)
    try:
        async with asyncio.timeout(seconds):
            await _write_and_read(cluster, outcome, token)
    except TimeoutError:
        pass  # who has no answer keeps its error
    return outcome


async def _make_topic(cluster: Cluster, topic: str, retention_ms: int) -> None:
    admin = Admin(cluster)
    brokers = len((await admin.describe_cluster()).brokers)
    new = NewTopic(topic, brokers, min(brokers, 3), configs={"retention.ms": str(retention_ms)})
    (error,) = (await admin.create_topics([new])).values()
    if isinstance(error, KafkaError) and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise error


async def _write_and_read(cluster: Cluster, outcome: ProbeOutcome, token: bytes) -> None:
    consumer = Consumer(cluster)
    async with consumer, await Producer.open(cluster, linger_ms=0) as producer:
        await consumer.assign(dict.fromkeys(outcome.partitions, END))
        began = stopwatch()
        writing = [
            asyncio.create_task(_write(producer, place, probed, token, began))
            for place, probed in outcome.partitions.items()
        ]
        reading = asyncio.create_task(_read(consumer, outcome, token, began))
        written = await asyncio.gather(*writing)
        if not any(written):
            reading.cancel()  # nothing will come
        await asyncio.gather(reading, return_exceptions=True)


async def _read(consumer: Consumer, outcome: ProbeOutcome, token: bytes, began: float) -> None:
    missing = set(outcome.partitions)
    async for record in consumer:
        place = TopicPartition(record.topic, record.partition)
        if record.value == token and place in missing:
            missing.discard(place)
            probed = outcome.partitions[place]
            probed.total_ms = (stopwatch() - began) * 1000
            probed.error = None
        if not missing:
            return


async def _write(
    producer: Producer, place: TopicPartition, probed: Probed, token: bytes, began: float
) -> bool:
    try:
        await (await producer.send(place.topic, token, partition=place.partition))
        probed.write_ms = (stopwatch() - began) * 1000
    except KafkaError as error:
        probed.error = f"not written: {error}"
        return False
    return True
