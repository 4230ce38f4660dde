"""A cluster for threads that wait, at a real broker."""

import asyncio
from collections.abc import Iterator

import pytest

from moldau.base.names import TopicPartition
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.client.transport.connection import BrokerNotAvailable
from moldau.protocol.messages.list_groups import ListGroupsRequest
from moldau.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("t")
        yield running


@pytest.fixture
def loop(broker: Broker) -> Iterator[BackgroundLoop]:
    loop = BackgroundLoop(broker.bootstrap_servers, client_id="test")
    yield loop
    loop.close()


def test_a_thread_waits_for_a_coroutine(loop: BackgroundLoop) -> None:
    assert loop.cluster.client_id == "test"
    assert loop.run(loop.cluster.topic("t")).name == "t"
    assert loop.submit(asyncio.sleep(0, "later")).result() == "later"  # any coroutine will do
    with pytest.raises(ZeroDivisionError):
        loop.run(_fail())


async def _fail() -> None:
    raise ZeroDivisionError


def test_a_connection_is_for_the_next_user_unless_it_waits_for_an_answer(loop: BackgroundLoop) -> None:
    assert loop.has_blocking_connections
    first = loop.blocking_connection_to_leader(TopicPartition("t", 0))
    (node_id,) = loop.cluster.brokers
    other = loop.blocking_connection(node_id)
    assert other is not first
    first.send(ListGroupsRequest())
    assert first.receive().groups == []
    loop.give_back(first)
    assert loop.blocking_connection(node_id) is first
    first.send(ListGroupsRequest())
    loop.give_back(first)
    assert not first.idle
    loop.give_back(other)
    loop.close_idle_connections()
    assert not other.idle


def test_a_cluster_that_is_not_there(unused_port: int) -> None:
    with pytest.raises(BrokerNotAvailable):
        BackgroundLoop(f"127.0.0.1:{unused_port}")
