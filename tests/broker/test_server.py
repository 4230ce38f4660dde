"""The listeners: who is let in, who is sent away, and how everything ends; over real sockets."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from moldau.base.clock import SteppedClock
from moldau.base.settings import SettingError
from moldau.base.tasks import Timers
from moldau.broker.connection import Connection
from moldau.broker.purgatory import Parked, Purgatory
from moldau.broker.server import Server
from moldau.cluster.configs.broker_settings import load_broker_settings
from moldau.cluster.records import Endpoint
from tests.broker.fake_transport import framed
from tests.shared.waiting import turns, until

LOOPBACK = Endpoint("PLAINTEXT", "127.0.0.1", 0, "PLAINTEXT")
TWO_LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
}


class Desk:
    """Stands for the dispatcher: "wait" is parked, "big" is answered with many bytes, all else is echoed."""

    def __init__(self, purgatory: Purgatory) -> None:
        self.purgatory = purgatory

    def frame(self, frame: memoryview, connection: Connection) -> None:
        if frame == b"wait":
            parked = Parked((), 60, lambda expired: b"late" if expired else None)
            reply = connection.reserve()
            reply.parked = parked

            def answer(response: bytes) -> None:
                reply.parked = None
                reply.fill([bytearray(response)])

            self.purgatory.park(parked, answer)
        elif frame == b"big":
            connection.send([bytearray(32 * 1024 * 1024)])
        else:
            connection.send([bytearray(frame)])


class House:
    """A server that listens, and clients of it."""

    def __init__(self, settings: dict[str, str], descriptors: int = 1000) -> None:
        self.clock = SteppedClock(frozen=True)
        self.timers = Timers(self.clock, asyncio.get_running_loop())
        self.purgatory = Purgatory(self.timers, 100)
        made = load_broker_settings({"log.dirs": "unused", **settings})
        self.server = Server(Desk(self.purgatory), self.purgatory, made, descriptors)  # type: ignore[arg-type]
        self.port = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def open(self) -> None:
        self.port = await self.server.bind(LOOPBACK)
        await self.server.accept()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        return reader, writer

    async def ask(self, text: bytes, answer: bytes | None = None) -> tuple[Any, Any]:
        """A new connection that has asked once; it has been answered, unless ``answer`` is empty."""
        reader, writer = await self.connect()
        writer.write(framed(text))
        if answer != b"":
            assert await reader.readexactly(len(answer or text)) == (answer or text)
        return reader, writer

    async def until(self, condition: Callable[[], bool]) -> None:
        await until(condition)

    async def close(self) -> None:
        await self.server.stop(0)
        for writer in self.writers:
            writer.close()
        self.timers.close()


def run(
    settings: dict[str, str], play: Callable[[House], Coroutine[Any, Any, None]], descriptors: int = 1000
) -> None:
    async def scene() -> None:
        house = House(settings, descriptors)
        await house.open()
        try:
            await asyncio.wait_for(play(house), 20)
        finally:
            await house.close()
        assert not house.server.connections

    asyncio.run(scene())


def test_the_system_chooses_a_port_and_nobody_is_let_in_early() -> None:
    async def scene() -> None:
        house = House({})
        port = await house.server.bind(LOOPBACK)
        assert port > 0
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        await house.server.accept()
        house.port = port
        await house.ask(b"hello")
        await house.close()

    asyncio.run(scene())


def test_a_port_in_use() -> None:
    async def play(house: House) -> None:
        with pytest.raises(OSError, match="in use"):
            await house.server.bind(LOOPBACK._replace(port=house.port))

    run({}, play)


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::"])
def test_an_open_address_without_authentication(host: str, caplog: pytest.LogCaptureFixture) -> None:
    async def bind(house: House) -> None:
        await house.server.bind(Endpoint("OPEN", host, 0, "PLAINTEXT"))

    with pytest.raises(SettingError, match=r"moldau\.listener\.plaintext\.allow"):
        run({}, bind)
    run({"moldau.listener.plaintext.allow": "true"}, bind)
    assert "without authentication" in caplog.text


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_loopback_address_needs_no_authentication(host: str, caplog: pytest.LogCaptureFixture) -> None:
    async def bind(house: House) -> None:
        await house.server.bind(Endpoint("OPEN", host, 0, "PLAINTEXT"))

    run({}, bind)
    assert "without authentication" not in caplog.text


def test_connections_have_a_share_of_the_descriptors(caplog: pytest.LogCaptureFixture) -> None:
    """Who is one too many is turned away without a line of its own in the log."""

    async def play(house: House) -> None:
        _, first = await house.ask(b"1")
        await house.ask(b"2")
        for _ in range(3):
            reader, _ = await house.connect()
            assert await reader.read() == b""
        first.close()
        await house.until(lambda: len(house.server.connections) == 1)
        await house.ask(b"3")

    run({}, play, descriptors=2)
    assert caplog.text.count("all that the limit of open files allows") == 1
    assert caplog.text.count("new connections are welcome again") == 1


@pytest.mark.parametrize("name", ["max.connections", "listener.name.plaintext.max.connections"])
def test_one_too_many_waits_for_another_to_end(name: str) -> None:
    async def play(house: House) -> None:
        _, first = await house.ask(b"1")
        await house.ask(b"2")
        waiting = [await house.ask(text, answer=b"") for text in (b"3", b"4")]
        await house.until(lambda: len(house.server.connections) == 4)
        assert not await arrives(waiting[0][0])
        first.close()
        assert await waiting[0][0].readexactly(1) == b"3"
        assert not await arrives(waiting[1][0])
        waiting[0][1].close()
        assert await waiting[1][0].readexactly(1) == b"4"

    # The only listener is that of the brokers too, unless another one is.
    run({name: "2", **TWO_LISTENERS}, play)


async def arrives(reader: asyncio.StreamReader) -> bool:
    """Whether anything comes within a moment."""
    try:
        await asyncio.wait_for(reader.read(1), 0.1)
    except TimeoutError:
        return False
    return True


def test_a_broker_takes_the_place_of_the_quietest_client(caplog: pytest.LogCaptureFixture) -> None:
    async def play(house: House) -> None:
        port = await house.server.bind(Endpoint("INTERNAL", "127.0.0.1", 0, "PLAINTEXT"))
        await house.server.accept()
        quiet, _ = await house.ask(b"1")
        await house.ask(b"2")
        house.port = port
        await house.ask(b"b")
        assert await quiet.read() == b""

    run({"max.connections": "2", **TWO_LISTENERS}, play)
    assert "max.connections=2 is reached and a broker came" in caplog.text


def test_how_many_wait_is_bounded(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(house: House) -> None:
        await house.ask(b"1")
        await house.ask(b"2", answer=b"")
        await house.until(lambda: len(house.server.connections) == 2)
        reader, _ = await house.connect()
        assert await reader.read() == b""

    monkeypatch.setattr("moldau.broker.access.connection_limits._WAITING_MOST", 1)
    run({"max.connections": "1", **TWO_LISTENERS}, play)
    assert "1 connections wait already" in caplog.text


@pytest.mark.parametrize(
    "name", ["max.connection.creation.rate", "listener.name.plaintext.max.connection.creation.rate"]
)
def test_connections_that_come_too_fast_wait_their_time(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """20 a second over windows of ten seconds: 200 at once are served, those after them 50 ms apart."""

    async def play(house: House) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        made = [await house.ask(b"%03d" % number, answer=b"") for number in range(205)]
        answered = []
        for reader, _ in made:
            await reader.readexactly(3)
            answered.append(loop.time() - began)
        # What is served late is late by the clock; how much later it was seen is the machine's business.
        assert answered[204] > 0.2

    run({name: "20", **TWO_LISTENERS}, play)


def test_connections_that_would_wait_for_ages_are_closed(caplog: pytest.LogCaptureFixture) -> None:
    async def play(house: House) -> None:
        for number in range(10):
            await house.ask(b"%d" % number)
        limits = house.server._among
        for _ in range(28):
            limits.seconds_early("PLAINTEXT", asyncio.get_running_loop().time())
        # The next one would be served in about 29 seconds; then it is more than 30.
        for _ in range(3):
            reader, _ = await house.connect()
        assert await reader.read() == b""

    run({"max.connection.creation.rate": "1", **TWO_LISTENERS}, play)
    assert "max.connection.creation.rate is exceeded by far" in caplog.text


@pytest.mark.parametrize(
    "settings",
    [
        {"max.connections.per.ip": "1"},
        {"max.connections.per.ip": "5", "max.connections.per.ip.overrides": "127.0.0.1:1"},
    ],
)
def test_max_connections_per_ip(settings: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    async def play(house: House) -> None:
        await house.ask(b"1")
        reader, _ = await house.connect()
        assert await reader.read() == b""

    run(settings, play)
    assert "max.connections.per.ip=1 is reached" in caplog.text


def test_idle_connections_go() -> None:
    async def play(house: House) -> None:
        reader, writer = await house.ask(b"1")
        await house.ask(b"wait", b"")
        await house.until(lambda: len(house.purgatory) == 1)
        house.server.close_idle()
        assert len(house.server.connections) == 2, "both have asked since they came"
        writer.write(framed(b"2"))
        assert await reader.readexactly(1) == b"2"
        house.server.close_idle()
        assert len(house.server.connections) == 2
        house.server.close_idle()
        assert await reader.read() == b""
        await house.until(lambda: len(house.server.connections) == 1)
        assert len(house.purgatory) == 1, "who waits for an answer is not idle"

    run({}, play)


def test_a_peer_that_takes_nothing_does_not_stay_forever() -> None:
    async def play(house: House) -> None:
        await house.ask(b"big", b"")
        await house.until(lambda: any(not each.quiet for each in house.server.connections))
        (connection,) = house.server.connections
        connection.close("for a reason")
        await turns(10)
        assert house.server.connections, "it cannot end while its bytes are not taken"
        house.server.close_idle()
        await house.until(lambda: not house.server.connections)

    run({}, play)


def test_a_lost_connection_leaves_nothing_behind() -> None:
    async def play(house: House) -> None:
        _, writer = await house.ask(b"wait", b"")
        await house.until(lambda: len(house.purgatory) == 1)
        writer.transport.abort()
        await house.until(lambda: not house.server.connections)
        assert len(house.purgatory) == 0

    run({}, play)


def test_stopping_answers_who_waits() -> None:
    async def play(house: House) -> None:
        reader, writer = await house.ask(b"wait", b"")
        await house.until(lambda: len(house.purgatory) == 1)
        stopping = asyncio.create_task(house.server.stop(10))
        assert await reader.readexactly(4) == b"late"
        writer.write(framed(b"one more"))
        assert await reader.read() == b"", "no new request is taken"
        await stopping
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", house.port)

    run({}, play)


@pytest.mark.slow
def test_stopping_lets_large_answers_out() -> None:
    async def play(house: House) -> None:
        reader, _ = await house.ask(b"big", b"")
        await house.until(lambda: any(not each.quiet for each in house.server.connections))
        stopping = asyncio.create_task(house.server.stop(10))
        assert len(await reader.readexactly(32 * 1024 * 1024)) == 32 * 1024 * 1024
        assert await reader.read() == b""
        await stopping

    run({}, play)


def test_stopping_does_not_wait_for_ever() -> None:
    async def play(house: House) -> None:
        await house.ask(b"big", b"")
        await house.until(lambda: any(not each.quiet for each in house.server.connections))
        await house.server.stop(0.05)
        await house.until(lambda: not house.server.connections)

    run({}, play)


def test_sockets_are_tuned_as_set() -> None:
    async def play(house: House) -> None:
        await house.ask(b"1")
        (connection,) = house.server.connections
        tuned = connection._transport.get_extra_info("socket")
        assert tuned.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert 20_000 <= tuned.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 40_000

    run({"socket.send.buffer.bytes": "20000"}, play)
