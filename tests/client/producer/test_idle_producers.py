"""Producers and numbers of partitions that are kept for the next task."""

import asyncio
from typing import Any

import pytest

from moldau.client.producer.accumulator import ProducerIdentity
from moldau.client.producer.idle_producers import (
    IdempotentProducer,
    give_back,
    partition_count,
    take_producer,
)
from moldau.client.transport.cluster import Cluster
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.protocol.messages.metadata import MetadataRequest


def counting() -> Any:
    """Gives a new producer id to everyone who asks."""
    ids = iter(range(100, 200))
    return {
        ApiKey.INIT_PRODUCER_ID: lambda _: InitProducerIdResponse(producer_id=next(ids), producer_epoch=0)
    }


def test_one_that_was_given_back_is_taken_first(scripted: Any) -> None:
    async def run() -> None:
        async with scripted(counting()) as broker, await Cluster.open(broker.address) as cluster:
            first = await take_producer(cluster)
            second = await take_producer(cluster)
            assert first.identity != second.identity, "a producer serves one task at a time"
            give_back(cluster, second)
            assert await take_producer(cluster) is second
            third = await take_producer(cluster)
            assert third.identity.producer_id == 102, "one that is not given back is used by nobody"
            assert len(broker.of(InitProducerIdRequest)) == 3

    asyncio.run(run())


def test_clusters_share_nothing(scripted: Any) -> None:
    async def run() -> None:
        async with (
            scripted(counting()) as broker,
            await Cluster.open(broker.address) as cluster,
            await Cluster.open(broker.address) as other,
        ):
            given = IdempotentProducer(ProducerIdentity(1, 0))
            give_back(cluster, given)
            assert (await take_producer(other)).identity.producer_id == 100
            assert await take_producer(cluster) is given

    asyncio.run(run())


def test_the_number_of_partitions_is_believed_for_a_second(
    scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with scripted() as broker, await Cluster.open(broker.address) as cluster:
            loop = asyncio.get_running_loop()
            time = loop.time
            ahead = 0.0
            monkeypatch.setattr(loop, "time", lambda: time() + ahead)
            broker.topics["orders"] = 3
            assert await partition_count(cluster, "orders") == 3
            asked = len(broker.of(MetadataRequest))
            broker.topics["orders"] = 5
            assert await partition_count(cluster, "orders") == 3
            assert len(broker.of(MetadataRequest)) == asked
            ahead = 1.5
            assert await partition_count(cluster, "orders") == 5

    asyncio.run(run())


def test_a_topic_that_is_missing_may_be_created(scripted: Any) -> None:
    async def run() -> None:
        async with scripted() as broker, await Cluster.open(broker.address) as cluster:
            broker.topics["orders"] = 1
            await partition_count(cluster, "orders")
            request = broker.of(MetadataRequest)[-1]
            assert [topic.name for topic in request.topics] == ["orders"]
            assert request.allow_auto_topic_creation

    asyncio.run(run())


def test_a_topic_that_the_cluster_forgot_is_asked_for_again(scripted: Any) -> None:
    async def run() -> None:
        async with scripted() as broker, await Cluster.open(broker.address) as cluster:
            broker.topics["orders"] = 3
            assert await partition_count(cluster, "orders") == 3
            del broker.topics["orders"]
            await cluster.topics(["orders"])  # it is gone, and created again
            broker.topics["orders"] = 5
            assert await partition_count(cluster, "orders") == 5

    asyncio.run(run())
