"""What a fetch session costs the leader while nothing happens: CPU for each fetch that finds nothing.

No sockets and no client: frames are handed to a connection whose transport keeps only the last answer. A
session of a consumer, and one of a follower that is in sync, of so many empty partitions; each fetch names no
partition, as the fetches of an idle reader do. It is answered at once (``max_wait_ms=0``), or it waits and is
answered when its time is up. ``--news`` writes to one partition before every fetch that is answered at once.
Each is measured for a session that looks at all of its partitions, and beside it for one that looks at news.

    python -m benchmarks.idle_fetch [--partitions 100,1000,5000] [--news] [--profile]
"""

import argparse
import asyncio
import cProfile
import gc
import pstats
import struct
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from benchmarks.request_path import Transport
from moldau.broker.bounds.flow_control import Intake
from moldau.broker.bounds.turns import Rotation
from moldau.broker.connection import Connection
from moldau.broker.fetch_sessions import WATCHES_FROM
from moldau.cluster.image import PartitionImage
from moldau.node import Node
from moldau.protocol.codec import decode, encode
from moldau.protocol.framing import write_request_header
from moldau.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from moldau.protocol.records import Record, encode_batch
from moldau.testing.broker import create_topic

_VERSION = 17
#: Length, correlation id and the empty tagged fields of the header.
_RESPONSE_HEADER_BYTES = 9
_FOLLOWER = 2
_LONG_MS = 3_600_000
#: More partitions than any session has.
_NEVER = 1 << 30


class _Transport(Transport):
    """Keeps the bytes of the last answer, and says when there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = bytearray()
        self.answered = asyncio.Event()

    def write(self, data: Any) -> None:
        self.answer += data
        self.answered.set()

    def writelines(self, list_of_data: Any) -> None:
        for data in list_of_data:
            self.write(data)

    def pause_reading(self) -> None:
        pass


class Reader:
    """One session with the broker, as a consumer or as a follower has it."""

    def __init__(self, node: Node, topic_id: bytes, partitions: int, *, follows: bool) -> None:
        self._node = node
        self._scratch = bytearray(1 << 20)
        rotation = Rotation(asyncio.get_running_loop().call_soon)
        self._connection = Connection(
            node.dispatch.frame,
            node.server.limits,
            Intake(rotation, memoryview(self._scratch)),
            "PLAINTEXT",
            node.server,
        )
        self._transport = _Transport()
        self._connection.connection_made(self._transport)
        self._state = ReplicaState(_FOLLOWER, -1) if follows else ReplicaState()
        self._session_id = self._epoch = 0
        asked = [FetchPartition(index, 0, 0, partition_max_bytes=1) for index in range(partitions)]
        self._topics = [FetchTopic(topic_id=topic_id, partitions=asked)]

    def send(self, max_wait_ms: int) -> None:
        request = FetchRequest(
            replica_state=self._state,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=[] if self._epoch else self._topics,
        )
        out = bytearray(4)
        write_request_header(out, 1, _VERSION, 7, "bench", True)
        out += encode(request, _VERSION)
        struct.pack_into(">i", out, 0, len(out) - 4)
        self._transport.answer.clear()
        self._transport.answered.clear()
        self._scratch[: len(out)] = out
        self._connection.buffer_updated(len(out))
        self._epoch += 1

    async def answer(self) -> bytes:
        await self._transport.answered.wait()
        return bytes(self._transport.answer)

    async def begin(self) -> None:
        """The first fetch names everything; the next two leave nothing that would be told again."""
        self.send(0)
        answer = await self.answer()
        response: Any = decode(FetchResponse, _VERSION, memoryview(answer)[_RESPONSE_HEADER_BYTES:])
        self._session_id = response.session_id
        assert self._session_id, "no session"
        for _ in range(2):
            self.send(0)
            await self.answer()

    async def wait_and_expire(self) -> None:
        self.send(_LONG_MS)
        while not len(self._node.services.purgatory):
            assert not self._transport.answered.is_set(), "it has not waited"
            await asyncio.sleep(0)
        self._node.services.purgatory.expire_all()
        await self.answer()

    def close(self) -> None:
        self._connection.connection_lost(None)


async def _at_once(reader: Reader) -> None:
    reader.send(0)
    await reader.answer()


async def _after_a_write(node: Node, reader: Reader) -> None:
    partition = node.replicas.find("bench", 0)
    partition.append(memoryview(encode_batch([Record(0, 1, None, b"x")])), 1, 1, 12)
    await _at_once(reader)


async def _spent(reader: Reader, fetch: Callable[[Reader], Awaitable[None]], seconds: float) -> float:
    """Seconds of CPU for each fetch, the best of three runs."""
    best = float("inf")
    for _ in range(3):
        gc.collect()
        rounds, began = 0, time.process_time()
        while (spent := time.process_time() - began) < seconds or rounds < 3:
            await fetch(reader)
            rounds += 1
        best = min(best, spent / rounds)
    return best


async def _readers(node: Node, partitions: int) -> dict[str, list[Reader]]:
    """Of each kind one whose session looks at everything, and one whose session looks at news."""
    topic_id = node.metadata.image.topics_by_name["bench"].topic_id
    sessions = node.services.fetch_sessions
    readers: dict[str, list[Reader]] = {}
    for who in ("consumer", "follower"):
        if who == "follower":
            for partition in node.replicas:
                index = partition.topic_partition.partition
                partition.take_role(PartitionImage(index, (1, _FOLLOWER), (1, _FOLLOWER), 1, 0, 1), 1)
        readers[who] = []
        for watches_from in (_NEVER, WATCHES_FROM):
            sessions.watches_from = watches_from
            reader = Reader(node, topic_id, partitions, follows=who == "follower")
            await reader.begin()
            readers[who].append(reader)
        sessions.watches_from = _NEVER  # who watches stays with it, and no other begins to
    return readers


async def _measure(options: argparse.Namespace, partitions: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        node = Node({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": directory, "node.id": "1"})
        await node.start()
        await create_topic(node, "bench", partitions)
        readers = await _readers(node, partitions)
        cases = {"at once": _at_once, "waits": Reader.wait_and_expire}
        if options.news:
            cases["one has news"] = partial(_after_a_write, node)
        for case, fetch in cases.items():
            for who, (of_all, of_news) in readers.items():
                all_us = 1e6 * await _spent(of_all, fetch, options.seconds)
                profiler = cProfile.Profile()
                if options.profile:
                    profiler.enable()
                news_us = 1e6 * await _spent(of_news, fetch, options.seconds)
                profiler.disable()
                print(
                    f"| {who}, {case:12} | {partitions:6,} | {all_us:9,.0f} | {news_us:7,.0f} |"
                    f" {all_us / news_us:6.1f} |",
                    flush=True,
                )
                if options.profile:
                    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
        for reader in (each for pair in readers.values() for each in pair):
            reader.close()
        await node.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU of fetches that find nothing")
    parser.add_argument("--partitions", default="100,1000,5000")
    parser.add_argument("--seconds", type=float, default=0.5, help="CPU time of one of three runs")
    parser.add_argument("--news", action="store_true", help="also with one partition that was written to")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    print("| fetch | partitions | looks at all, µs | looks at news, µs | times |")
    print("|---|---:|---:|---:|---:|")
    for partitions in map(int, options.partitions.split(",")):
        asyncio.run(_measure(options, partitions))


if __name__ == "__main__":
    main()
