import asyncio
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.client.transport.cluster import Cluster, is_retriable, topic_error
from moldau.client.transport.connection import BrokerNotAvailable
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker

QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 2}
P0 = TopicPartition("orders", 0)


def test_open_learns_the_brokers(scripted: Any) -> None:
    async def run() -> None:
        async with scripted() as broker, await Cluster.open(broker.address) as cluster:
            assert cluster.cluster_id == "scripted"
            assert [b.address for b in cluster.brokers.values()] == [broker.address]
            (request,) = broker.of(MetadataRequest)
            assert request.topics == []
            assert not request.allow_auto_topic_creation

    asyncio.run(run())


def test_open_takes_the_first_address_that_answers(scripted: Any, unused_port: int) -> None:
    async def run() -> None:
        async with (
            scripted() as broker,
            await Cluster.open(f"127.0.0.1:{unused_port}, {broker.address}") as cluster,
        ):
            assert cluster.brokers

    asyncio.run(run())


def test_open_says_what_is_wrong_with_every_address(unused_port: int) -> None:
    with pytest.raises(BrokerNotAvailable, match=f"{unused_port}: is the broker running.*{unused_port}"):
        asyncio.run(Cluster.open([f"127.0.0.1:{unused_port}", f"localhost:{unused_port}"]))


def test_no_address_at_all() -> None:
    with pytest.raises(ValueError, match="no bootstrap server"):
        Cluster(" , ")


def test_a_leader_is_found_and_its_connection_shared(scripted: Any) -> None:
    async def run() -> None:
        async with scripted(node_id=1) as first, scripted(node_id=2) as second:
            first.cluster = [first, second]
            first.topics = {"orders": 2}
            first.leaders = {("orders", 1): 2}
            async with await Cluster.open(first.address) as cluster:
                one, two = await asyncio.gather(
                    cluster.leader(TopicPartition("orders", 1)), cluster.leader(TopicPartition("orders", 1))
                )
                assert one is two
                assert one.address == second.address
                assert second.connections == 1
                assert (await cluster.leader(P0)).address == first.address
                # The connection that was made to begin with serves broker 1 as well.
                assert first.connections == 1
                purpose = await cluster.leader(P0, purpose="fetch")
                assert purpose is not await cluster.leader(P0)
                assert first.connections == 2
                await cluster.disconnect(1, "fetch")
                assert purpose.closed

    asyncio.run(run())


def test_topics_that_are_not_there(scripted: Any) -> None:
    async def run() -> None:
        async with scripted() as broker, await Cluster.open(broker.address) as cluster:
            broker.topics = {"orders": 1}
            with pytest.raises(KafkaError, match="topic 'nope' does not exist"):
                await cluster.topic("nope")
            with pytest.raises(KafkaError, match="no partition orders-7"):
                await cluster.leader_id(TopicPartition("orders", 7))
            broker.leaders = {("orders", 0): -1}
            await cluster.topics(["orders"])
            with pytest.raises(KafkaError, match="has no leader") as error:
                await cluster.leader_id(P0)
            assert error.value.code == ErrorCode.LEADER_NOT_AVAILABLE

    asyncio.run(run())


def test_a_topic_that_was_deleted_is_forgotten(scripted: Any) -> None:
    async def run() -> None:
        async with scripted() as broker, await Cluster.open(broker.address) as cluster:
            broker.topics = {"orders": 1}
            topic = await cluster.topic("orders")
            assert cluster.topic_name(topic.topic_id) == "orders"
            broker.topics = {}
            await cluster.refresh()
            assert cluster.known_topic("orders") is None
            assert cluster.topic_name(topic.topic_id) is None

    asyncio.run(run())


def test_a_topic_from_memory_costs_no_request(scripted: Any) -> None:
    async def run() -> None:
        async with scripted() as broker, await Cluster.open(broker.address) as cluster:
            broker.topics = {"orders": 3}
            await cluster.topic("orders")
            asked = len(broker.requests)
            assert len((await cluster.topic("orders")).partitions) == 3
            assert len(broker.requests) == asked

    asyncio.run(run())


def test_an_advertised_address_that_leads_nowhere_is_named(scripted: Any, unused_port: int) -> None:
    async def run() -> None:
        async with scripted() as broker:
            broker.handlers[ApiKey.METADATA] = lambda request: MetadataResponse(
                brokers=[MetadataResponseBroker(5, "127.0.0.1", unused_port)], controller_id=5
            )
            async with await Cluster.open(broker.address) as cluster:
                with pytest.raises(BrokerNotAvailable, match=r"broker 5 advertises .* advertised\.listeners"):
                    await cluster.controller()
                with pytest.raises(BrokerNotAvailable, match="broker 6 is not in the cluster"):
                    await cluster.connection(6)
                assert (await cluster.any()).address == broker.address

    asyncio.run(run())


def test_no_controller(scripted: Any) -> None:
    async def run() -> None:
        async with scripted() as broker:
            broker.handlers[ApiKey.METADATA] = lambda request: MetadataResponse(controller_id=-1)
            async with await Cluster.open(broker.address) as cluster:
                with pytest.raises(KafkaError, match="no controller"):
                    await cluster.controller()

    asyncio.run(run())


def test_retry_goes_on_until_it_succeeds(scripted: Any) -> None:
    async def run() -> None:
        async with scripted() as broker, await Cluster.open(broker.address, **QUICK) as cluster:
            attempts = []

            async def attempt() -> str:
                attempts.append(len(broker.requests))
                if len(attempts) < 4:
                    raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                return "done"

            assert await cluster.retry(attempt) == "done"
            # Fresh metadata before each new attempt.
            assert attempts == [attempts[0] + n for n in range(4)]

    asyncio.run(run())


def test_retry_ends_where_it_cannot_help(scripted: Any) -> None:
    async def run() -> None:
        async with scripted() as broker, await Cluster.open(broker.address, **QUICK) as cluster:
            attempts = []

            async def attempt(code: ErrorCode) -> None:
                attempts.append(code)
                raise KafkaError(code)

            with pytest.raises(KafkaError, match="INVALID_CONFIG"):
                await cluster.retry(lambda: attempt(ErrorCode.INVALID_CONFIG))
            assert len(attempts) == 1
            with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
                await cluster.retry(lambda: attempt(ErrorCode.NOT_CONTROLLER), timeout_ms=10)
            assert len(attempts) > 2

    asyncio.run(run())


def test_a_broken_connection_is_made_again(scripted: Any) -> None:
    async def run() -> None:
        async with scripted() as broker, await Cluster.open(broker.address, **QUICK) as cluster:
            broker.topics = {"orders": 1}
            first = await cluster.leader(P0)
            first.close()
            second = await cluster.leader(P0)
            assert not second.closed
            assert second is not first

    asyncio.run(run())


def test_errors_in_words() -> None:
    assert "not a legal name" in str(topic_error("a b", ErrorCode.INVALID_TOPIC_EXCEPTION))
    assert "not for this user" in str(topic_error("a", ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert is_retriable(BrokerNotAvailable("gone"))
    assert not is_retriable(KafkaError(ErrorCode.INVALID_CONFIG))
