"""A blocking connection against a socket that plays the broker: frames in pieces, memory used again, ends."""

import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau.client.transport.blocking_connection import BlockingConnection
from moldau.client.transport.connection import ConnectionLost, RequestTimedOut
from moldau.client.transport.requests import InPlace, encoded_request
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.schema import Versions

VERSIONS = {ApiKey.LIST_GROUPS: Versions(0, 0), ApiKey.PRODUCE: Versions(3, 9)}


class Peer:
    """The other end: takes one request after another and does with each what the test says."""

    def __init__(self, *pair: socket.socket) -> None:
        ours, self.sock = pair or socket.socketpair()
        self.connection = BlockingConnection(ours, "broker:9092", "test", VERSIONS, timeout_ms=10_000)

    def request(self) -> int:
        """The correlation id of the next request."""
        (size,) = struct.unpack(">i", self.sock.recv(4, socket.MSG_WAITALL))
        frame = self.sock.recv(size, socket.MSG_WAITALL)
        return int(struct.unpack_from(">hhi", frame)[2])

    def answer(self, correlation_id: int, body: bytes, pieces: int = 1) -> None:
        frame = struct.pack(">ii", len(body) + 4, correlation_id) + body
        step = -(-len(frame) // pieces)
        for at in range(0, len(frame), step):
            self.sock.sendall(frame[at : at + step])


#: ListGroups v0: no error, no groups.
EMPTY = struct.pack(">hi", 0, 0)


def groups(count: int) -> bytes:
    """An answer with so many groups, each of about a hundred bytes."""
    one = struct.pack(">h", 90) + b"g" * 90 + struct.pack(">h", 8) + b"consumer"
    return struct.pack(">hi", 0, count) + one * count


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.connection.close()
    peer.sock.close()


def asked(peer: Peer, then: Callable[[int], None]) -> ListGroupsResponse:
    """Asks, lets the peer do its part in a thread of its own, and waits."""
    peer.connection.send(ListGroupsRequest())
    playing = threading.Thread(target=lambda: then(peer.request()))
    playing.start()
    try:
        answer = peer.connection.receive()
    finally:
        playing.join()
    assert isinstance(answer, ListGroupsResponse)
    return answer


@pytest.mark.slow
@pytest.mark.parametrize("pieces", [1, 3, 40])
def test_answers_come_whole_however_they_are_cut(peer: Peer, pieces: int) -> None:
    for count in (0, 1, 30_000, 2):
        answer = asked(peer, lambda number, count=count: peer.answer(number, groups(count), pieces))  # type: ignore[misc]
        assert [group.group_id for group in answer.groups] == ["g" * 90] * count
        assert peer.connection.idle


def test_a_line_that_waits_for_an_answer_is_not_idle(peer: Peer) -> None:
    peer.connection.send(ListGroupsRequest())
    assert not peer.connection.idle


def test_several_requests_on_their_way(peer: Peer) -> None:
    for _ in range(3):
        peer.connection.send(ListGroupsRequest())
    numbers = [peer.request() for _ in range(3)]
    for count, number in enumerate(numbers):
        peer.answer(number, groups(count))
    for count in range(3):
        assert not peer.connection.idle
        assert len(peer.connection.receive().groups) == count
    assert peer.connection.idle


def test_record_batches_are_sent_from_where_they_lie(peer: Peer) -> None:
    batches = [bytes([number]) * 700_000 for number in range(3)]

    def produce(*records: Any) -> ProduceRequest:
        partitions = [PartitionProduceData(index, each) for index, each in enumerate(records)]
        return ProduceRequest(None, 1, 1000, [TopicProduceData(name="t", partition_data=partitions)])

    wanted = encoded_request(produce(*batches), ApiKey.PRODUCE, 9, 1, "test")
    received = bytearray()

    def take() -> None:
        while len(received) < len(wanted):
            received.extend(peer.sock.recv(100_000))

    taking = threading.Thread(target=take)
    taking.start()
    peer.connection.send(produce(*(InPlace(memoryview(batch)) for batch in batches)))
    taking.join()
    assert received == wanted


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not follow the option")
def test_a_whole_answer_arrives_before_anybody_reads() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100 * 1024)  # as Kafka's brokers have
    peer = Peer(ours, theirs)
    peer.connection.send(ListGroupsRequest())
    sending = threading.Thread(target=lambda: peer.answer(peer.request(), groups(15_000)), daemon=True)
    sending.start()
    sending.join(20)
    arrived = not sending.is_alive()
    assert len(peer.connection.receive().groups) == 15_000
    sending.join()
    peer.connection.close()
    theirs.close()
    assert arrived


def test_an_api_that_the_broker_lacks(peer: Peer) -> None:
    from moldau.protocol.messages.metadata import MetadataRequest

    with pytest.raises(KafkaError, match="does not offer METADATA"):
        peer.connection.send(MetadataRequest(topics=None))


@pytest.mark.parametrize(
    ("play", "said"),
    [
        (lambda peer, number: peer.sock.shutdown(socket.SHUT_RDWR), "closed the connection"),
        (lambda peer, number: peer.answer(number + 1, EMPTY), "something else"),
        (lambda peer, number: peer.sock.sendall(struct.pack(">i", -5)), "no Kafka frame"),
        (lambda peer, number: peer.sock.sendall(struct.pack(">i", 2**31 - 1)), "no Kafka frame"),
        (lambda peer, number: peer.answer(number, struct.pack(">hi", 0, 9)), "cannot be read"),
    ],
)
def test_whatever_is_no_answer_ends_the_line(
    peer: Peer, play: Callable[[Peer, int], None], said: str
) -> None:
    with pytest.raises(ConnectionLost, match=said):
        asked(peer, lambda number: play(peer, number))
    assert not peer.connection.idle


def test_an_answer_that_does_not_come_in_time(peer: Peer) -> None:
    peer.connection._sock.settimeout(0.01)
    peer.connection.send(ListGroupsRequest())
    with pytest.raises(RequestTimedOut):
        peer.connection.receive()
    assert not peer.connection.idle


def test_half_an_answer_leaves_the_line_to_nobody(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(view: memoryview) -> None:
        raise KeyboardInterrupt

    peer.connection.send(ListGroupsRequest())
    monkeypatch.setattr(peer.connection, "_fill", interrupted)
    with pytest.raises(KeyboardInterrupt):
        peer.connection.receive()
    assert not peer.connection.idle


def test_asking_over_a_line_that_was_closed() -> None:
    peer = Peer()
    peer.connection.close()
    with pytest.raises(ConnectionLost):
        peer.connection.send(ListGroupsRequest())
    peer.sock.close()
