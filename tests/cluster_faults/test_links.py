"""A link carries bytes both ways, holds them while it is cut, and refuses when it is down."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from tests.cluster_faults.links import Network


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that sends back what it gets."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection, contextlib.suppress(OSError):
                    while data := connection.recv(100):
                        connection.sendall(data)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network()
    yield made
    made.close()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


@pytest.mark.parametrize("direction", [("a", "b"), ("b", "a")])
def test_what_is_cut_arrives_later(network: Network, echo: int, direction: tuple[str, str]) -> None:
    link = network.link("b", echo, owner="a")
    with connect(link.port) as connection:
        connection.sendall(b"one")
        assert connection.recv(3) == b"one"
        network.cut([direction])
        connection.sendall(b"two")
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(3)
        network.heal()
        connection.settimeout(10)
        assert connection.recv(3) == b"two"


def test_the_first_request_says_who_speaks(network: Network, echo: int) -> None:
    link = network.link("broker2", echo)
    name = b"moldau-broker-1"
    frame = struct.pack(">hhih", 18, 0, 1, len(name)) + name
    frame = struct.pack(">i", len(frame)) + frame
    network.cut([("broker1", "broker2")])
    with connect(link.port) as connection:
        connection.sendall(frame)
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(100)
        network.heal()
        connection.settimeout(10)
        assert connection.recv(100) == frame


def test_nobody_listens_at_a_link_that_is_down(network: Network, echo: int) -> None:
    link = network.link("b", echo, owner="a")
    link.down()
    with pytest.raises(ConnectionRefusedError):
        connect(link.port)
    link.up()
    with connect(link.port) as connection:
        connection.sendall(b"one")
        assert connection.recv(3) == b"one"
