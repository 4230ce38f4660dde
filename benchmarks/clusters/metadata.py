"""One Metadata request over a bare connection: who leads what, as one broker knows it.

A client library would cache, retry and wait; here an answer is what the broker says now, and takes as long as
the broker takes. Version 1, which both brokers answer.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field

from benchmarks.brokers import receive

METADATA_KEY = 3
VERSION = 1
TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class PartitionView:
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterView:
    brokers: dict[int, int]
    """Port by broker id."""
    topics: dict[str, dict[int, PartitionView]] = field(default_factory=dict)

    def led_by(self, broker_id: int, topic: str) -> list[int]:
        return [number for number, each in self.topics.get(topic, {}).items() if each.leader == broker_id]

    def partitions(self) -> list[PartitionView]:
        return [each for topic in self.topics.values() for each in topic.values()]

    def is_whole(self, replicas: int) -> bool:
        """Every partition is led, and so many are in sync."""
        return all(each.leader >= 0 and len(each.isr) >= replicas for each in self.partitions())


def ask(port: int) -> ClusterView:
    """All topics, from the broker on this port."""
    return parse(ask_bytes(port))


def ask_bytes(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
        return request(connection)


def request(connection: socket.socket) -> bytes:
    body = struct.pack(">hhihi", METADATA_KEY, VERSION, 1, -1, -1)
    connection.sendall(struct.pack(">i", len(body)) + body)
    (size,) = struct.unpack(">i", receive(connection, 4))
    return receive(connection, size)


def parse(answer: bytes) -> ClusterView:
    reader = _Reader(answer)
    reader.int32()  # the correlation id
    brokers = {}
    for _ in range(reader.int32()):
        broker_id = reader.int32()
        reader.text()
        brokers[broker_id] = reader.int32()
        reader.text()
    reader.int32()  # the controller
    topics = {}
    for _ in range(reader.int32()):
        reader.skip(2)
        name = reader.text()
        reader.skip(1)
        topics[name] = dict(reader.partition() for _ in range(reader.int32()))
    return ClusterView(brokers, topics)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def skip(self, size: int) -> None:
        self._at += size

    def int32(self) -> int:
        (value,) = struct.unpack_from(">i", self._data, self._at)
        self._at += 4
        return int(value)

    def text(self) -> str:
        (size,) = struct.unpack_from(">h", self._data, self._at)
        self._at += 2 + max(size, 0)
        return self._data[self._at - max(size, 0) : self._at].decode()

    def ids(self) -> tuple[int, ...]:
        return tuple(self.int32() for _ in range(self.int32()))

    def partition(self) -> tuple[int, PartitionView]:
        self.skip(2)
        number = self.int32()
        return number, PartitionView(self.int32(), self.ids(), self.ids())
