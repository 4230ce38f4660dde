"""What brokers ask of the controller over a connection, and what it answers, as Kafka 4.3 does."""

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from moldau.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionDataRequest,
    TopicDataRequest,
)
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from moldau.protocol.messages.broker_registration import BrokerRegistrationRequest, Listener
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest
from moldau.testing import Broker, Cluster
from tests.shared.waiting import wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2) as running:
        yield running


def ask(cluster: Cluster, request: Any, *, of: int = 1) -> Any:
    """Asked by broker 2 over its own connection to broker 1, which is the controller."""
    assert cluster.controller_id == 1
    return cluster[2].run(_ask(cluster, request, of))


async def _ask(cluster: Cluster, request: Any, of: int) -> Any:
    return await cluster[2].node.peers.send(of, request)


def registration(broker_id: int, process: int = 1, **changed: Any) -> BrokerRegistrationRequest:
    fields: dict[str, Any] = {
        "broker_id": broker_id,
        "incarnation_id": process.to_bytes(16, "big"),
        "listeners": [Listener("PLAINTEXT", "127.0.0.1", 1, 0)],
        **changed,
    }
    return BrokerRegistrationRequest(**fields)


@contextmanager
def session(cluster: Cluster, broker_id: int) -> Iterator[None]:
    """The store takes this broker for one that runs: the controller does not fence it."""
    store = cluster[1].node._store
    opened = cluster[1].run(store.open_session(broker_id, lambda: None))
    try:
        yield
    finally:
        cluster[1].run(opened.release())


def test_registration(cluster: Cluster) -> None:
    cluster_id = cluster[1].node.logs.cluster_id
    good = registration(9, cluster_id=cluster_id)
    with session(cluster, 9):
        first = ask(cluster, good)
        assert (first.error_code, ask(cluster, good).broker_epoch) == (0, first.broker_epoch)
        other = ask(cluster, registration(9, 2, cluster_id=cluster_id))
        assert other.broker_epoch > first.broker_epoch
    wrong = ask(cluster, registration(9, cluster_id="nope"))
    assert (wrong.error_code, wrong.broker_epoch) == (ErrorCode.INCONSISTENT_CLUSTER_ID, -1)
    strange = registration(9, cluster_id=cluster_id, listeners=[Listener("X", "h", 1, 7)])
    assert ask(cluster, strange).error_code == ErrorCode.INVALID_REGISTRATION


def test_only_the_controller_answers(cluster: Cluster) -> None:
    async def of_broker_two() -> Any:
        return await cluster[1].node.peers.send(2, registration(9))

    assert cluster[1].run(of_broker_two()).error_code == ErrorCode.NOT_CONTROLLER


def test_producer_ids(cluster: Cluster) -> None:
    epoch = cluster.image.brokers[2].broker_epoch
    first = ask(cluster, AllocateProducerIdsRequest(2, epoch))
    second = ask(cluster, AllocateProducerIdsRequest(2, epoch))
    assert (first.producer_id_len, second.producer_id_start) == (1000, first.producer_id_start + 1000)
    for broker_id, asked in ((2, epoch - 1), (55, epoch)):
        answer = ask(cluster, AllocateProducerIdsRequest(broker_id, asked))
        assert (answer.error_code, answer.producer_id_len) == (ErrorCode.STALE_BROKER_EPOCH, 0)


def test_in_sync_replicas(cluster: Cluster) -> None:
    # The controller asks itself without a connection, so the leader has to be the other one.
    for number in itertools.count():
        cluster[1].create_topic(f"isr-{number}")
        topic = cluster.image.topics_by_name[f"isr-{number}"]
        if (leader := topic.partitions[0].leader) == 2:
            break
    epoch = cluster.image.brokers[leader].broker_epoch

    def change(partition_epoch: int, broker_epoch: int = epoch) -> AlterPartitionRequest:
        asked = PartitionDataRequest(
            0, 0, new_isr_with_epochs=[BrokerState(leader, epoch)], partition_epoch=partition_epoch
        )
        return AlterPartitionRequest(leader, broker_epoch, [TopicDataRequest(topic.topic_id, [asked])])

    answer = ask(cluster, change(0))
    (partition,) = answer.topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.isr) == (0, leader, [leader])
    (partition,) = ask(cluster, change(5)).topics[0].partitions
    assert partition.error_code == ErrorCode.NOT_CONTROLLER
    stale = ask(cluster, change(0, epoch + 1))
    assert (stale.error_code, stale.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])


def test_a_heartbeat_that_wants_to_shut_down(cluster: Cluster) -> None:
    with session(cluster, 8):
        made = ask(cluster, registration(8, cluster_id=cluster[1].node.logs.cluster_id))
        plain = ask(cluster, BrokerHeartbeatRequest(8, made.broker_epoch, made.broker_epoch))
        assert (plain.is_caught_up, plain.is_fenced, plain.should_shut_down) == (True, False, False)
        down = ask(cluster, BrokerHeartbeatRequest(8, made.broker_epoch, 0, want_shut_down=True))
        assert (down.is_caught_up, down.is_fenced, down.should_shut_down) == (False, False, True)
        assert not cluster.image.is_active(8)
    fenced = ask(cluster, BrokerHeartbeatRequest(8, made.broker_epoch, 0, want_fence=True))
    assert fenced.is_fenced
    stale = ask(cluster, BrokerHeartbeatRequest(8, made.broker_epoch + 1, 0))
    assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_broker_that_runs_is_not_fenced_by_a_request(cluster: Cluster) -> None:
    """It has a session: whoever asks in its name, and knows its epoch, is somebody else."""
    epoch = cluster.image.brokers[2].broker_epoch
    answer = ask(cluster, BrokerHeartbeatRequest(2, epoch, epoch, want_fence=True))
    assert (answer.error_code, answer.is_fenced) == (0, False)
    assert cluster.image.brokers[2].broker_epoch == epoch
    refused = ask(cluster, UnregisterBrokerRequest(2))
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Broker ID 2 is running: stop it first, then unregister it",
    )
    ask(cluster, BrokerHeartbeatRequest(2, epoch, epoch, want_shut_down=True))
    assert cluster.image.is_live(2)
    wait_until(lambda: cluster.image.is_active(2) and cluster.image.brokers[2].broker_epoch > epoch)


def requests_in_the_name_of(broker_id: int, epoch: int, cluster_id: str) -> list[Any]:
    return [
        UnregisterBrokerRequest(broker_id),
        BrokerHeartbeatRequest(broker_id, epoch, epoch, want_fence=True),
        BrokerHeartbeatRequest(broker_id, epoch, epoch, want_shut_down=True),
        BrokerHeartbeatRequest(broker_id, epoch + 1, epoch, want_fence=True),
        registration(broker_id, cluster_id=cluster_id),
        AllocateProducerIdsRequest(broker_id, epoch),
        AlterPartitionRequest(broker_id, epoch, []),
    ]


def test_no_client_takes_the_only_broker_out_of_the_metadata(caplog: pytest.LogCaptureFixture) -> None:
    with Broker() as broker:
        before = broker.node.metadata.image
        epoch, cluster_id = before.brokers[1].broker_epoch, broker.node.logs.cluster_id

        async def attack() -> list[int]:
            from moldau.client.transport.connection import Connection

            connection = await Connection.open("127.0.0.1", broker.port)
            try:
                return [
                    (await connection.send(request)).error_code
                    for request in requests_in_the_name_of(1, epoch, cluster_id)
                ]
            finally:
                connection.close()

        assert asyncio.run(attack()) == [
            ErrorCode.INVALID_REQUEST,
            *[ErrorCode.STALE_BROKER_EPOCH] * 3,
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            ErrorCode.STALE_BROKER_EPOCH,
            ErrorCode.NONE,  # it names no partition; those that it could name are guarded by their epochs
        ]
        assert broker.node.metadata.image is before
    assert "registering again" not in caplog.text


@pytest.mark.parametrize(
    "api_key",
    [ApiKey.ALTER_PARTITION, ApiKey.BROKER_REGISTRATION, ApiKey.ENVELOPE, ApiKey.ALLOCATE_PRODUCER_IDS],
)
def test_a_listener_for_clients_closes_the_connection(api_key: ApiKey) -> None:
    settings = {
        "listeners": "INTERNAL://127.0.0.1:0,CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
    }
    with Broker(settings) as broker:
        host, port = broker.node.address("CLIENTS")

        async def closed() -> bool:
            from moldau.client.transport.connection import Connection, ConnectionLost
            from moldau.protocol.messages import load

            connection = await Connection.open(host, port)
            try:
                await connection.send(load(api_key)[0]())
            except ConnectionLost:
                return True
            return False

        assert asyncio.run(closed())
