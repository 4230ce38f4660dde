"""Dead, or only silent: what counts is whether somebody listens."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from moldau.base.tasks import Background
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.cluster.records import BrokerFenced, BrokerRegistered, Endpoint
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.replication.links import peer_watch
from moldau.replication.links.peer_watch import PeerWatch
from tests.shared.waiting import turns, until


class Connection:
    def __init__(self) -> None:
        self.broken = asyncio.Event()

    async def lost(self) -> None:
        await self.broken.wait()


class Peers:
    """One connection to broker 2, which listens at this port."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.opened: list[Connection] = []

    def endpoint(self, broker_id: int) -> Endpoint:
        return Endpoint("PLAINTEXT", "127.0.0.1", self.port, "PLAINTEXT")

    async def connection(self, broker_id: int, purpose: str) -> Any:
        if self.opened and self.opened[-1].broken.is_set():
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)
        self.opened.append(Connection())
        return self.opened[-1]


def image(epoch: int = 2, process: bytes = bytes(16)) -> ClusterImage:
    return EMPTY_IMAGE.apply_all(
        [BrokerRegistered(1, 1, bytes(16), ()), BrokerRegistered(2, epoch, process, ())]
    )


def watching(scenario: Callable[[PeerWatch, Peers, list[int], asyncio.Server], Any]) -> None:
    async def run() -> None:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        peers, dead, background = Peers(server.sockets[0].getsockname()[1]), [], Background()

        async def declare_dead(broker_id: int) -> None:
            dead.append(broker_id)

        watch = PeerWatch(1, peers, background, declare_dead)  # type: ignore[arg-type]
        watch.follow(EMPTY_IMAGE, image(), ())
        await until(lambda: peers.opened)
        try:
            await asyncio.wait_for(scenario(watch, peers, dead, server), 60)
        finally:
            await background.stop()
            server.close()

    asyncio.run(run())


def test_a_process_that_is_gone() -> None:
    async def scenario(watch: PeerWatch, peers: Peers, dead: list[int], server: asyncio.Server) -> None:
        server.close()
        await server.wait_closed()
        peers.opened[0].broken.set()
        await until(lambda: dead == [2])

    watching(scenario)


def test_a_process_that_comes_back_was_not_dead(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """From here its listener cannot be reached: to declare it dead again and again would help nobody."""
    monkeypatch.setattr(peer_watch, "_START_SECONDS", 0.0)
    monkeypatch.setattr(peer_watch, "_RETRY_SECONDS", 0.01)

    async def scenario(watch: PeerWatch, peers: Peers, dead: list[int], server: asyncio.Server) -> None:
        server.close()
        await server.wait_closed()
        peers.opened[0].broken.set()
        await until(lambda: dead == [2])
        watch.follow(image(), image(epoch=7), ())
        await until(lambda: "broker 2 lives" in caplog.text)
        assert dead == [2]
        peers.opened.clear()  # it is reached, and dies then
        await until(lambda: peers.opened)
        peers.opened[0].broken.set()
        await until(lambda: dead == [2, 2])
        watch.follow(image(epoch=7), image(epoch=9, process=b"another process "), ())
        await until(lambda: dead == [2, 2, 2])

    watching(scenario)


def test_a_process_that_was_never_reached_may_be_starting() -> None:
    async def scenario(watch: PeerWatch, peers: Peers, dead: list[int], server: asyncio.Server) -> None:
        server.close()
        await server.wait_closed()
        peers.opened[0].broken.set()
        watch.follow(image(), image(epoch=7), ())
        await turns(50)
        assert await watch._is_refused(2)
        assert dead == []

    watching(scenario)


def test_a_connection_that_breaks_is_no_death() -> None:
    async def scenario(watch: PeerWatch, peers: Peers, dead: list[int], server: asyncio.Server) -> None:
        assert not await watch._is_refused(2)
        peers.opened[0].broken.set()
        await turns(50)
        assert dead == []

    watching(scenario)


def test_each_process_is_watched_anew_and_a_fenced_one_not_at_all() -> None:
    async def scenario(watch: PeerWatch, peers: Peers, dead: list[int], server: asyncio.Server) -> None:
        watch.follow(image(), image(), ())
        watch.follow(image(), image(epoch=7), ())
        await until(lambda: len(peers.opened) == 2)
        fenced = image(epoch=7).apply(BrokerFenced(2))
        watch.follow(image(epoch=7), fenced, ())
        assert watch._watched == {}

    watching(scenario)
