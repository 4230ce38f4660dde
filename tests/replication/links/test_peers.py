"""Connections between brokers: one for each purpose, made again after a restart."""

import pytest

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.replication.links.peers import Peers
from moldau.testing import Cluster


def test_one_connection_for_each_broker_and_purpose() -> None:
    with Cluster(2) as cluster:
        node = cluster[1].node

        async def scenario() -> None:
            peers = Peers(1, lambda: node.metadata.image, "PLAINTEXT")
            first = await peers.connection(2)
            assert await peers.connection(2) is first
            assert await peers.connection(2, "fetch") is not first
            answer = await peers.send(2, MetadataRequest(topics=[]))
            assert sorted(broker.node_id for broker in answer.brokers) == [1, 2]
            first.close()
            again = await peers.connection(2)
            assert again is not first
            peers.forget(2)
            assert again.closed
            with pytest.raises(KafkaError) as error:
                await peers.connection(9)
            assert error.value.code is ErrorCode.BROKER_NOT_AVAILABLE
            await peers.close()
            with pytest.raises(KafkaError):
                await peers.connection(2)

        cluster[1].run(scenario())


def test_a_broker_that_is_gone() -> None:
    with Cluster(2) as cluster:
        node = cluster[1].node
        cluster.kill(2)

        async def scenario() -> None:
            peers = Peers(1, lambda: node.metadata.image, "PLAINTEXT")
            with pytest.raises(KafkaError) as error:
                await peers.connection(2)
            assert error.value.code is ErrorCode.BROKER_NOT_AVAILABLE
            await peers.close()

        cluster[1].run(scenario())
