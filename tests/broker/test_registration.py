"""A broker's place in the cluster, also when somebody takes it away."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from moldau.broker import registration as registration_module
from moldau.broker.registration import Registration
from moldau.cluster.controller.commands import BrokerRegistration, begin_shutdown, fence_broker
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.cluster.records import BrokerUnregistered, MetadataError, Record
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.broker_registration import BrokerRegistrationResponse
from moldau.testing import Broker, Cluster
from tests.shared.waiting import wait_until


def forget(image: ClusterImage, broker_id: int) -> list[Record]:
    return [BrokerUnregistered(broker_id)]


def stop(image: ClusterImage, broker_id: int) -> list[Record]:
    return begin_shutdown(image, broker_id, image.brokers[broker_id].broker_epoch)


@pytest.mark.parametrize("decide", [fence_broker, forget, stop])
def test_a_broker_that_was_fenced_by_mistake_registers_again(decide: Callable[..., list[Record]]) -> None:
    with Cluster(2) as cluster:
        before = cluster.image.brokers[2].broker_epoch
        node = cluster[1].node

        async def mistake() -> None:
            await node.metadata.submit(lambda image: decide(image, 2))

        cluster[1].run(mistake())
        wait_until(lambda: cluster.image.is_live(2) and cluster.image.brokers[2].broker_epoch > before)
        wait_until(lambda: cluster[2].node.broker_epoch == cluster.image.brokers[2].broker_epoch)


def test_the_epoch_of_a_clean_stop_is_told_at_the_next_start() -> None:
    with Cluster(2, {"offsets.topic.num.partitions": 1}) as cluster:
        epoch = cluster[2].node.broker_epoch
        (disk,) = cluster.image.brokers[2].log_directories
        cluster[2].stop()
        cluster.restart(2)
        assert cluster[2].node.logs.clean_broker_epoch == epoch
        assert cluster[2].node.broker_epoch > epoch
        cluster.kill(2)
        cluster.restart(2)
        assert cluster[2].node.logs.clean_broker_epoch == -1
        assert cluster.image.brokers[2].log_directories == (disk,)
        assert disk != cluster.image.brokers[1].log_directories[0]


def test_a_broker_that_stops_does_not_register_again(caplog: pytest.LogCaptureFixture) -> None:
    """Alone it fences itself, and the next controller finds it fenced."""
    with Broker() as broker:
        log = broker._memory[1]  # type: ignore[index]
    assert "registering again" not in caplog.text
    image = EMPTY_IMAGE.apply_all(log.changes(0).records)
    assert not image.is_live(1)


def test_a_broker_waits_while_the_controller_cannot_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration_module, "_PAUSE_SECONDS", 0)
    answers = [
        BrokerRegistrationResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR),
        BrokerRegistrationResponse(broker_epoch=7),
        BrokerRegistrationResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID),
    ]

    class Channel:
        async def send(self, request: Any, *, timeout_ms: int) -> Any:
            return answers.pop(0)

    channel: Any = Channel()
    nothing: Any = None
    made = Registration(BrokerRegistration(1, bytes(16), ()), channel, nothing, nothing)
    asyncio.run(made.register())
    assert made.broker_epoch == 7
    with pytest.raises(KafkaError, match="refused this broker"):
        asyncio.run(made.register())


def test_a_late_answer_does_not_bring_an_old_epoch_back() -> None:
    """The broker fetched with it, and its leaders refused that for ever."""
    answers = [BrokerRegistrationResponse(broker_epoch=15), BrokerRegistrationResponse(broker_epoch=10)]

    class Channel:
        async def send(self, request: Any, *, timeout_ms: int) -> Any:
            return answers.pop(0)

    channel: Any = Channel()
    nothing: Any = None
    made = Registration(BrokerRegistration(1, bytes(16), ()), channel, nothing, nothing)
    for _ in range(2):
        asyncio.run(made.register())
    assert made.broker_epoch == 15


def test_a_session_is_regained_although_the_store_fails_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration_module, "_PAUSE_SECONDS", 0)
    done: list[str] = []
    failures: list[Exception] = [
        MetadataError("no ZooKeeper"),
        KafkaError(ErrorCode.KAFKA_STORAGE_ERROR),
        KafkaError(ErrorCode.KAFKA_STORAGE_ERROR),
    ]

    async def open_session() -> None:
        done.append("session")
        if len(done) == 1:
            raise failures.pop(0)

    async def refresh() -> None:
        done.append("refresh")
        if failures:
            raise failures.pop(0)

    class Channel:
        async def send(self, request: Any, *, timeout_ms: int) -> Any:
            return BrokerRegistrationResponse(broker_epoch=7)

    channel: Any = Channel()
    nothing: Any = None
    made = Registration(BrokerRegistration(1, bytes(16), ()), channel, nothing, nothing)
    asyncio.run(made.regain(open_session, refresh))
    assert done == ["session", "session", "refresh", "refresh", "refresh"]


def test_a_broker_leads_again_although_it_could_not_read_the_metadata_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It had a session, and stayed without leadership for ever."""
    with Cluster(2, {"offsets.topic.num.partitions": 1}) as cluster:
        node = cluster[2].node
        refresh, failures = node.metadata.refresh, [KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)]

        async def refresh_later() -> ClusterImage:
            if failures:
                raise failures.pop()
            return await refresh()

        async def open_session(broker_id: int, on_lost: Any) -> None:
            """It is held still: only this broker takes it for lost."""

        resumed: list[ClusterImage] = []
        monkeypatch.setattr(node._store, "open_session", open_session)
        monkeypatch.setattr(node.metadata, "refresh", refresh_later)
        monkeypatch.setattr(node.replicas, "resume", resumed.append)
        coordinators = (node._groups, node._transactions.coordinator)
        followed: list[object] = []
        for coordinator in coordinators:
            monkeypatch.setattr(coordinator, "follow", lambda old, new: followed.append(new))

        async def lose() -> None:
            node._session_lost()

        cluster[2].run(lose())
        # A partition that it was given meanwhile has no coordinator yet.
        wait_until(lambda: len(followed) == len(coordinators))
        assert resumed
        assert not failures


def test_a_broker_without_a_session_coordinates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one may by now: what it would say of offsets and members is old."""
    with Cluster(2, {"offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 2}) as cluster:
        first = cluster[1].node
        cluster[1].run(first._groups.topic.make(first.services))
        node = cluster[cluster.leader("__consumer_offsets")].node
        wait_until(lambda: node._groups.runtime.partitions() == [0])
        session = asyncio.Event()

        async def open_session(broker_id: int, on_lost: Any) -> None:
            await session.wait()

        monkeypatch.setattr(node._store, "open_session", open_session)

        async def lose() -> ErrorCode:
            node._session_lost()
            with pytest.raises(KafkaError) as caught:
                node._groups.shard("group")
            return caught.value.code

        broker = cluster[node.node_id]
        assert broker.run(lose()) is ErrorCode.NOT_COORDINATOR

        async def regain() -> None:
            session.set()

        broker.run(regain())
        wait_until(lambda: node._groups.runtime.partitions() == [0])


def test_a_broker_that_stops_without_a_session_leads_nothing() -> None:
    """It was cut off from the store while it handed over: others may lead."""
    with Cluster(2, {"offsets.topic.num.partitions": 1}) as cluster:
        node = cluster[2].node

        async def lose() -> bool:
            node.registration.leaving = True
            node._session_lost()
            return node.replicas._suspended

        assert cluster[2].run(lose())
