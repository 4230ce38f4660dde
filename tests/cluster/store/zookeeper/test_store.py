"""The store on a real ZooKeeper: sessions that end, logins, and what Kafka's tools find there."""

import asyncio
import json
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from moldau.base.clock import SystemClock
from moldau.cluster.records import BrokerRegistered, Endpoint
from moldau.cluster.store.contract import MetadataStoreError
from tests.shared.waiting import until
from tests.shared.zookeeper_server import TICK_MS, ZooKeeper, shared_zookeeper

pytest.importorskip("kazoo")

from kazoo.exceptions import NoAuthError

from moldau.cluster.store.zookeeper.settings import ZooKeeperSettings
from moldau.cluster.store.zookeeper.store import ZooKeeperStore

pytestmark = pytest.mark.slow


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


def not_lost() -> None:
    raise AssertionError("nothing was taken away")


def settings(connect: str, **changed: Any) -> ZooKeeperSettings:
    hosts, _, chroot = connect.partition("/")
    return ZooKeeperSettings(hosts, f"/{chroot}", session_timeout_seconds=3.0)._replace(**changed)


def new_store(connect: str, **changed: Any) -> ZooKeeperStore:
    return ZooKeeperStore(settings(connect, **changed), SystemClock())


def test_what_kafkas_tools_find() -> None:
    async def scenario() -> None:
        connect = shared_zookeeper().chroot()
        store = new_store(connect)
        await store.load()
        await store.open_session(7, not_lost)
        controllership = await store.campaign(7, not_lost)
        client = store._connection.client
        assert sorted(client.get_children("/")) == [
            "admin",
            "brokers",
            "cluster",
            "config",
            "consumers",
            "controller",
            "controller_epoch",
            "feature",
            "isr_change_notification",
            "latest_producer_id_block",
            "log_dir_event_notification",
        ]
        data, stat = client.get("/controller")
        assert json.loads(data)["brokerid"] == 7
        assert stat.ephemeralOwner
        data, stat = client.get("/controller_epoch")
        assert (data, stat.version, controllership.epoch) == (b"1", 1, 1)
        assert client.get("/brokers/ids/7")[0] is None or client.get("/brokers/ids/7")[0] == b""
        # The broker writes its own data when it is registered.
        listener = Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT")
        await store.append([BrokerRegistered(7, 1, bytes(16), (listener,))], 0, 1)
        found = await until(lambda: client.get("/brokers/ids/7")[0])
        assert json.loads(found)["endpoints"] == ["PLAINTEXT://h:9092"]
        assert client.get("/brokers/ids/7")[1].version == 1
        await store.close()

    run(scenario)


def test_znodes_with_a_login() -> None:
    async def scenario() -> None:
        connect = shared_zookeeper().chroot()
        store = new_store(connect, set_acl=True, digest="kafka:secret")
        await store.open_session(1, not_lost)
        await store.campaign(1, not_lost)
        await store.append([BrokerRegistered(1, 1, bytes(16), ())], 0, 1)
        stranger = new_store(connect)
        client = stranger._connection.client
        assert client.get_children("/brokers/ids") == ["1"]
        with pytest.raises(NoAuthError):
            client.set("/controller_epoch", b"9")
        for path in ("/moldau/metadata", "/config/users", "/config/brokers"):
            with pytest.raises(NoAuthError):
                client.get(path)
        with pytest.raises(MetadataStoreError, match="another login has made the znodes"):
            await stranger.load()
        await store.close()
        await stranger.close()

    run(scenario)


def test_a_session_is_given_up_before_zookeeper_can_end_it(tmp_path: Path) -> None:
    """While ZooKeeper is away nobody knows; both callbacks come, and afterwards both can be had again."""
    server = ZooKeeper(tmp_path)

    async def scenario() -> None:
        store = new_store(server.chroot())
        lost: list[str] = []
        await store.open_session(1, lambda: lost.append("session"))
        first = await store.campaign(1, lambda: lost.append("controller"))
        server.stop()
        await until(lambda: len(lost) == 2)
        assert sorted(lost) == ["controller", "session"]
        server.start()

        async def again() -> Any:
            try:
                return await store.open_session(1, not_lost)
            except MetadataStoreError:
                return None

        assert await until(again)
        second = await store.campaign(1, not_lost)
        assert second.epoch > first.epoch
        assert await store.sessions() == {1}
        await store.close()

    try:
        run(scenario)
    finally:
        server.stop()


def test_without_a_server_the_message_says_what_to_check() -> None:
    async def scenario() -> None:
        store = ZooKeeperStore(
            ZooKeeperSettings("127.0.0.1:1", "", 1.0, connection_timeout_seconds=0.2), SystemClock()
        )
        with pytest.raises(MetadataStoreError, match=r"127\.0\.0\.1:1 does not answer.*zookeeper\.connect"):
            await store.load()
        await store.close()

    run(scenario)


def test_a_broker_that_is_declared_dead() -> None:
    """Its znodes go at once; one that lives after all is told, and comes back."""

    async def scenario() -> None:
        connect = shared_zookeeper().chroot()
        one, two = new_store(connect), new_store(connect)
        lost: list[str] = []
        await one.open_session(1, lambda: lost.append("session"))
        first = await one.campaign(1, lambda: lost.append("controller"))
        await two.open_session(2, not_lost)
        waiting = asyncio.ensure_future(two.campaign(2, not_lost))
        await two.declare_dead(1)
        second = await waiting
        assert second.epoch == first.epoch + 1
        assert await two.sessions() == {2}
        await until(lambda: sorted(lost) == ["controller", "session"])
        await one.open_session(1, not_lost)
        assert await two.sessions() == {1, 2}
        await two.declare_dead(2)  # nobody declares itself dead
        await two.declare_dead(7)
        assert await two.sessions() == {1, 2}
        await one.close()
        await two.close()

    run(scenario)


def test_a_broker_is_declared_dead_after_its_connection_has_broken() -> None:
    """ZooKeeper forgets what a broken connection watched, though the session goes on."""

    async def scenario() -> None:
        connect = shared_zookeeper().chroot()
        one, two = new_store(connect), new_store(connect)
        lost: list[str] = []
        await one.open_session(1, lambda: lost.append("session"))
        client: Any = one._connection.client
        states: list[str] = []
        client.add_listener(states.append)
        client._connection._socket.shutdown(socket.SHUT_RDWR)
        await until(lambda: states == ["SUSPENDED", "CONNECTED"])
        assert await two.sessions() == {1}
        await two.declare_dead(1)
        await until(lambda: lost == ["session"])
        await one.close()
        await two.close()

    run(scenario)


def test_a_session_lasts_as_long_as_zookeeper_grants() -> None:
    """Not as long as the broker asks: it would lead on when its session is over."""

    async def scenario() -> None:
        store = new_store(shared_zookeeper().chroot(), session_timeout_seconds=3600.0)
        await store.sessions()
        assert store._connection.session_timeout_seconds == pytest.approx(20 * TICK_MS / 1000)
        await store.close()

    run(scenario)
