"""`moldau broker --processes N` under the same load with one process and with two: what a second core brings.

    python -m benchmarks.processes            two minutes; rows for docs/scale.md
    python -m benchmarks.processes --seconds 3 --rounds 3

Two processes send or fetch, each for its half of eight partitions (replication factor 1), eight requests
under way at a time. They send frames that are made beforehand and read of an answer only its length, so that
most of the work is the brokers'. Rounds alternate; a figure is the median. The CPU time of a GB says what
stays where there are as many cores as brokers and clients want.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import struct
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from benchmarks.brokers import free_port
from benchmarks.moldau_broker import MoldauBroker
from benchmarks.request_path import batch, frame
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

#: The last version that names topics.
BY_NAME = 12
TOPIC = "load"
PARTITIONS = 8
LOADS = 2
UNDER_WAY = 8
RECORDS, RECORD_BYTES = 148, 100
FETCHED_BYTES = 512 * 1024
GB = 1e9

Place = tuple[int, int]  # port of the leader, partition


class Result(NamedTuple):
    mb_per_s: float
    cpu_s_per_gb: float
    #: How many cores the brokers used.
    cores: float


class Processes(MoldauBroker):
    """One command, so many brokers, on ports that follow each other."""

    def __init__(self, directory: Path, processes: int) -> None:
        super().__init__(directory, port=_free_ports(processes))
        self.processes = processes

    def command(self) -> list[str]:
        return [*super().command(), "--processes", str(self.processes)]

    def create_topic(self) -> list[Place]:
        """The leader of each partition, once every broker is there and the topic is spread over them."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        while len(admin.list_topics(timeout=30).brokers) < self.processes:
            time.sleep(0.05)
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result()
        while True:
            found = admin.list_topics(TOPIC, timeout=30)
            partitions = found.topics[TOPIC].partitions.values()
            if len(partitions) == PARTITIONS and all(each.leader in found.brokers for each in partitions):
                return [(found.brokers[each.leader].port, each.id) for each in partitions]
            time.sleep(0.05)


def _free_ports(count: int) -> int:
    """The first of so many free ports that follow each other."""
    while True:
        first = free_port()
        try:
            for port in range(first + 1, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            continue
        return first


def produce_frame(partition: int) -> bytes:
    data = PartitionProduceData(partition, batch(RECORDS, RECORD_BYTES))
    topic = TopicProduceData(TOPIC, partition_data=[data])
    return frame(0, BY_NAME, ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic]))


def fetch_frame(partition: int) -> bytes:
    wanted = FetchPartition(partition, -1, 0, partition_max_bytes=FETCHED_BYTES)
    topics = [FetchTopic(TOPIC, partitions=[wanted])]
    return frame(1, BY_NAME, FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=FETCHED_BYTES, topics=topics))


FRAMES = {"produce": produce_frame, "fetch": fetch_frame}


def load(what: str, places: Sequence[Place], seconds: float, moved: multiprocessing.Queue[int]) -> None:
    """Keeps requests under way to each partition in turn; the bytes of their records."""
    scratch = bytearray(1 << 20)
    connections = []
    for port, partition in places:
        connected = socket.create_connection(("127.0.0.1", port))
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request = FRAMES[what](partition)
        connections.append((connected, request))
        for _ in range(UNDER_WAY):
            connected.sendall(request)
    total = 0
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for connected, request in connections:
            size = _take_answer(connected, scratch)
            total += RECORDS * RECORD_BYTES if what == "produce" else size
            connected.sendall(request)
    moved.put(total)
    for connected, _ in connections:
        connected.close()


def _take_answer(connected: socket.socket, scratch: bytearray) -> int:
    head = connected.recv(4, socket.MSG_WAITALL)
    (size,) = struct.unpack(">i", head)
    left = size
    while left:
        left -= connected.recv_into(scratch, min(left, len(scratch)))
    return int(size)


def measure(broker: Processes, places: Sequence[Place], what: str, seconds: float) -> Result:
    moved: multiprocessing.Queue[int] = multiprocessing.Queue()
    # Each load has partitions of every broker, as clients have.
    shares = [sorted(places)[number::LOADS] for number in range(LOADS)]
    loads = [multiprocessing.Process(target=load, args=(what, each, seconds, moved)) for each in shares]
    before, began = broker.cpu_s(), time.perf_counter()
    for each in loads:
        each.start()
    total = sum(moved.get() for _ in loads)
    cpu_s, took_s = broker.cpu_s() - before, time.perf_counter() - began
    for each in loads:
        each.join()
    return Result(total / took_s / 1e6, cpu_s / (total / GB), cpu_s / took_s)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    results: dict[tuple[str, int], list[Result]] = {}
    for round_number in range(arguments.rounds):
        for processes in (1, 2):
            with (
                tempfile.TemporaryDirectory() as directory,
                Processes(Path(directory), processes) as broker,
            ):
                places = broker.create_topic()
                for what in FRAMES:
                    found = measure(broker, places, what, arguments.seconds)
                    results.setdefault((what, processes), []).append(found)
                    print(
                        f"round {round_number + 1}, {processes} processes, {what}: "
                        f"{found.mb_per_s:,.0f} MB/s, {found.cpu_s_per_gb:.2f} s of CPU for a GB",
                        flush=True,
                    )
    print("\n| | processes | MB/s | CPU of the brokers for a GB | cores that they used |")
    print("|---|---:|---:|---:|---:|")
    for (what, processes), found in sorted(results.items(), reverse=True):
        middle = [median(column) for column in zip(*found, strict=True)]
        print(f"| {what} | {processes} | {middle[0]:,.0f} | {middle[1]:.2f} s | {middle[2]:.2f} |")


if __name__ == "__main__":
    main()
