"""Bytes of one request never turn up in another: connections that break off at any byte, beside others.

What is written says where it belongs; whoever reads it finds only that.
"""

import random
import socket
import struct
import threading

import pytest

from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records import Record, encode_batch
from moldau.testing import Broker
from tests.contract.wire import frame

TOPICS = 6
ROUNDS = 60


def _payload(topic: str, number: int, size: int) -> bytes:
    return f"{topic}/{number:06d}/".encode() * (size // 8)


def _produce(topic: str, number: int, size: int) -> bytes:
    batch = bytes(encode_batch([Record(0, 1, topic.encode(), _payload(topic, number, size), ())]))
    return frame(
        ProduceRequest(None, 1, 1000, [TopicProduceData(topic, b"", [PartitionProduceData(0, batch)])]), 12
    )


def _fetch(topic: str) -> bytes:
    wanted = FetchTopic(topic, b"", [FetchPartition(0, -1, 0, partition_max_bytes=1 << 18)])
    return frame(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[wanted]), 12)


def _play(port: int, topic: str, seed: int, found: list[str]) -> None:
    """Writes and reads one topic; breaks off in the middle of requests, and leaves answers unread."""
    dice = random.Random(seed)
    for number in range(ROUNDS):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as made:
            data = _produce(topic, number, dice.choice((16, 500, 20_000, 300_000)))
            if dice.random() < 0.4:
                made.sendall(data[: dice.randrange(len(data))])
                continue
            made.sendall(data + _fetch(topic))
            if dice.random() < 0.3:
                made.recv(dice.randrange(1, 1000))
                continue
            for _ in range(2):
                (size,) = struct.unpack(">i", _exactly(made, 4))
                answer = _exactly(made, size)
            found += [other for other in _names() if other != topic and other.encode() in answer]


def _exactly(made: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = made.recv(size - len(data))
        assert part, "the broker closed a good connection"
        data += part
    return bytes(data)


def _names() -> list[str]:
    return [f"topic-{letter}" for letter in "abcdef"[:TOPICS]]


@pytest.mark.slow
def test_no_bytes_of_another_request() -> None:
    found: list[str] = []
    with Broker() as broker:
        for topic in _names():
            broker.create_topic(topic)
        threads = [
            threading.Thread(target=_play, args=(broker.port, topic, seed, found))
            for seed, topic in enumerate(_names())
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for topic in _names():
            records = broker.records(topic)
            assert records
            for record in records:
                head = (record.value or b"").split(b"/")
                assert (record.key, head[0]) == (topic.encode(), topic.encode())
                part = b"/".join(head[:2]) + b"/"
                assert record.value == part * (len(record.value or b"") // len(part))
    assert found == []
