"""Idempotent producers that outlive a task, and how many partitions a topic has.

A task that writes a few records and is gone would take longer to ask for a producer id and for the topic than
to write, so a process keeps both for the next task.

Invariant: a producer serves one task at a time, and only a task that succeeded gives it back: a
failed one may have left batches in flight. A topic that has more partitions now is noticed within a second.
"""

import asyncio
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from moldau.base.names import TopicPartition
from moldau.client.producer.accumulator import PartitionQueue, ProducerIdentity
from moldau.client.producer.sender import new_identity
from moldau.client.transport.cluster import Cluster

_PARTITIONS_KNOWN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class IdempotentProducer:
    """``queues`` have the next sequence of each partition that was written to."""

    identity: ProducerIdentity
    queues: dict[TopicPartition, PartitionQueue] = field(default_factory=dict)


@dataclass(slots=True)
class _Kept:
    producers: list[IdempotentProducer] = field(default_factory=list)
    #: By topic: the number, and until when it is believed.
    partitions: dict[str, tuple[int, float]] = field(default_factory=dict)


_kept: WeakKeyDictionary[Cluster, _Kept] = WeakKeyDictionary()


async def take_producer(cluster: Cluster) -> IdempotentProducer:
    """One that is idle, or a new one."""
    idle = _of(cluster).producers
    return idle.pop() if idle else IdempotentProducer(await new_identity(cluster))


def give_back(cluster: Cluster, producer: IdempotentProducer) -> None:
    """After everything that it sent was acknowledged."""
    _of(cluster).producers.append(producer)


async def partition_count(cluster: Cluster, topic: str) -> int:
    """How many partitions a topic has; one that is missing is created where the broker does that."""
    now = asyncio.get_running_loop().time()
    known = _of(cluster).partitions.get(topic)
    if known is not None and now < known[1] and cluster.known_topic(topic) is not None:
        return known[0]
    found = await cluster.retry(lambda: cluster.topic(topic, refresh=True, allow_auto_topic_creation=True))
    _of(cluster).partitions[topic] = len(found.partitions), now + _PARTITIONS_KNOWN_SECONDS
    return len(found.partitions)


def _of(cluster: Cluster) -> _Kept:
    return _kept.setdefault(cluster, _Kept())
