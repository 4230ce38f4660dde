"""Producers that outlive a task: an id with its sequences, and how many partitions a topic has.

A task of a micro-batch writes a few records and is gone. Asking for a new producer id and for the topic each
time would take longer than writing them, so a process keeps both for the next task.

Invariant: a producer serves one task at a time, and only one that came to a good end gives it back: what a
failed one has left on its way is nobody's business. A topic that has grown is noticed within a second.
"""

import asyncio
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from moldau.base.names import TopicPartition
from moldau.client.producer.sender import new_identity
from moldau.client.transport.cluster import Cluster

_PARTITIONS_KNOWN_SECONDS = 1.0


@dataclass(slots=True)
class Producer:
    """``sequences`` is the next one of each partition that was written to."""

    producer_id: int
    producer_epoch: int
    sequences: dict[TopicPartition, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Kept:
    producers: list[Producer] = field(default_factory=list)
    #: By topic: the number, and until when it is believed.
    partitions: dict[str, tuple[int, float]] = field(default_factory=dict)


_kept: WeakKeyDictionary[Cluster, _Kept] = WeakKeyDictionary()


async def take_producer(cluster: Cluster) -> Producer:
    """One that is idle, or a new one."""
    idle = _of(cluster).producers
    if idle:
        return idle.pop()
    identity = await new_identity(cluster)
    return Producer(identity.producer_id, identity.producer_epoch)


def give_back(cluster: Cluster, producer: Producer) -> None:
    """After everything that it sent was acknowledged."""
    _of(cluster).producers.append(producer)


async def partition_count(cluster: Cluster, topic: str) -> int:
    """How many partitions a topic has; one that is missing is made where the broker does that."""
    now = asyncio.get_running_loop().time()
    known = _of(cluster).partitions.get(topic)
    if known is not None and now < known[1] and cluster.known_topic(topic) is not None:
        return known[0]
    found = await cluster.retry(lambda: cluster.topic(topic, refresh=True, allow_auto_topic_creation=True))
    _of(cluster).partitions[topic] = len(found.partitions), now + _PARTITIONS_KNOWN_SECONDS
    return len(found.partitions)


def _of(cluster: Cluster) -> _Kept:
    return _kept.setdefault(cluster, _Kept())
