"""What one request costs inside the broker, from the bytes of its frame to the bytes of its answer.

No sockets and no client: frames are handed to a connection whose transport throws the answers away. The log
is a real file in a temporary directory.

    python -m benchmarks.request_path            µs of CPU per request
    python -m benchmarks.request_path --profile  where they go
"""

import asyncio
import cProfile
import pstats
import struct
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from moldau.broker.bounds.flow_control import Intake
from moldau.broker.bounds.turns import Rotation
from moldau.broker.connection import Connection
from moldau.node import Node
from moldau.protocol.codec import encode
from moldau.protocol.framing import write_request_header
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records import BatchBuilder
from moldau.testing.broker import create_topic


class Transport(asyncio.Transport):
    """Takes everything and keeps nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    def write(self, data: Any) -> None:
        self.written += len(data)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        pass


class _Alone(Rotation):
    """The loop gets no turn while this measures; a real one would give this connection its turn again."""

    def is_spent(self) -> bool:
        return False


def frame(api_key: int, version: int, message: Any) -> bytes:
    out = bytearray(4)
    write_request_header(out, api_key, version, 7, "bench", True)
    out += encode(message, version)
    struct.pack_into(">i", out, 0, len(out) - 4)
    return bytes(out)


def batch(records: int, size: int) -> bytes:
    builder = BatchBuilder()
    for index in range(records):
        builder.append(None, bytes(size), timestamp_ms=1_700_000_000_000 + index // 50)
    return bytes(builder.build())


def cpu_seconds(node: Node, frame: bytes, rounds: int) -> float:
    """Seconds of CPU for one request, four of them in each read as a busy producer sends them."""
    together = 4
    scratch = bytearray(frame * together)
    rotation = _Alone(asyncio.get_running_loop().call_soon)
    rotation.turn_seconds = float("inf")  # nobody else waits, however slow the machine is
    connection = Connection(
        node.dispatch.frame,
        node.server.limits,
        Intake(rotation, memoryview(scratch)),
        "PLAINTEXT",
        node.server,
    )
    connection.connection_made(Transport())
    fresh = bytes(scratch)
    started = time.process_time()
    for _ in range(rounds):
        scratch[:] = fresh  # offsets are written into the batches in place
        connection.buffer_updated(len(scratch))
    spent = time.process_time() - started
    if connection.requests != rounds * together:
        raise RuntimeError(f"{connection.requests} of {rounds * together} requests were handled")
    connection.connection_lost(None)
    return spent / rounds / together


@asynccontextmanager
async def started() -> AsyncIterator[tuple[Node, dict[str, tuple[bytes, int]]]]:
    """A node with one topic, and requests for it: a frame, and how often to send it for one figure."""
    with tempfile.TemporaryDirectory() as directory:
        properties = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": directory}
        node = Node(properties)
        await node.start()
        await create_topic(node, "bench", 1)
        topic_id = node.metadata.image.topics_by_name["bench"].topic_id

        def produce(records: int, size: int) -> bytes:
            data = PartitionProduceData(0, batch(records, size))
            topic = TopicProduceData(topic_id=topic_id, partition_data=[data])
            return frame(0, 13, ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic]))

        wanted = FetchPartition(0, -1, 0, partition_max_bytes=1 << 20)
        asked = FetchTopic(topic_id=topic_id, partitions=[wanted])
        fetch = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[asked])
        yield (
            node,
            {
                "Produce v13, one record of 100 bytes": (produce(1, 100), 20_000),
                "Produce v13, 148 records of 100 bytes (16 KB)": (produce(148, 100), 5_000),
                "Produce v13, 16 records of 1,000 bytes (16 KB)": (produce(16, 1000), 5_000),
                "Fetch v13, 1 MB": (frame(1, 13, fetch), 500),
            },
        )
        await node.stop()


async def _measure(profile: bool) -> None:
    async with started() as (node, cases):
        for name, (request, rounds) in cases.items():
            profiler = cProfile.Profile() if profile else None
            best = min(cpu_seconds(node, request, rounds) for _ in range(3))
            print(f"{name:50} {best * 1e6:8.1f} µs")
            if profiler is not None:
                profiler.enable()
                cpu_seconds(node, request, rounds)
                profiler.disable()
                pstats.Stats(profiler).sort_stats("tottime").print_stats(22)


if __name__ == "__main__":
    asyncio.run(_measure("--profile" in sys.argv))
