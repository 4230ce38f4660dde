"""`moldau mirror` beside MirrorMaker 2 from Maven, between the same two clusters, in one run.

    python -m benchmarks.mirror [--megabytes 200] [--partitions 4] [--clusters moldau|kafka]

A topic is filled first, so that each mirror starts on a full backlog: MB/s from its first record at the
target to its last, CPU time and largest resident memory of the mirror's own process. Then records come one by
one, every 10 ms, and the time until a consumer at the target has each is the latency. Every mirror has a pair
of brokers of its own, so that none finds what another has left. MirrorMaker 2 runs in its dedicated mode with
the heap of Kafka's script (2 GB at most), one task for each partition and no setting that makes it slower.

`exact` (same offsets) is what a Moldau target gets, `translated` what MirrorMaker 2 does as well; with
Apache Kafka as the target only the latter is there.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.apache_kafka import ApacheKafka, fetch, java
from benchmarks.brokers import CLOCK_TICKS, BrokerProcess
from benchmarks.moldau_broker import MoldauBroker

TOPIC = "load"
LATENCY_RECORDS = 500
LATENCY_PAUSE_S = 0.01
PATIENCE_S = 600.0


@dataclass(frozen=True)
class Result:
    mirror: str
    record_bytes: int
    megabytes_per_second: float
    cpu_s_per_gb: float
    resident_mb: float
    latency_p50_ms: float
    latency_p99_ms: float


def mm2_properties(source: str, target: str, partitions: int, directory: Path) -> Path:
    lines = {
        "clusters": "A,B",
        "A.bootstrap.servers": source,
        "B.bootstrap.servers": target,
        "A->B.enabled": "true",
        "B->A.enabled": "false",
        "A->B.topics": f"{TOPIC}.*",
        "tasks.max": str(partitions),
        "replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "config.storage.replication.factor": "1",
        "refresh.topics.interval.seconds": "1",
    }
    file = directory / "mm2.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return file


def start_mm2(source: str, target: str, partitions: int, directory: Path) -> subprocess.Popen[bytes]:
    file = mm2_properties(source, target, partitions, directory)
    command = java(
        "org.apache.kafka.connect.mirror.MirrorMaker",
        str(file),
        jvm_options=("-Xms256M", "-Xmx2G"),
        logging="quiet",
    )
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def start_ours(mode: str) -> Callable[[str, str, int, Path], subprocess.Popen[bytes]]:
    def start(source: str, target: str, partitions: int, directory: Path) -> subprocess.Popen[bytes]:
        file = mm2_properties(source, target, partitions, directory)
        file.write_text(file.read_text() + f"moldau.mode={mode}\nmoldau.transaction.ms=100\n")
        command = [sys.executable, "-m", "moldau", "mirror", str(file), "--log-level", "warning"]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL)

    return start


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def peak_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def fill(servers: str, megabytes: int, record_bytes: int, partitions: int) -> int:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, partitions, 1)])[TOPIC].result()
    count = megabytes * 1_000_000 // record_bytes
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000}
    )
    value = bytes(range(256)) * (record_bytes // 256 + 1)
    for at in range(count):
        while True:
            try:
                producer.produce(TOPIC, value[:record_bytes], partition=at % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        if at % 1000 == 0:
            producer.poll(0)
    assert producer.flush(300) == 0
    return count


class Target:
    """The copy, as a consumer sees it: how many records have come."""

    def __init__(self, servers: str, partitions: int) -> None:
        self.places = [TopicPartition(f"A.{TOPIC}", index) for index in range(partitions)]
        self.consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": "watcher", "isolation.level": "read_committed"}
        )

    def ends(self) -> int:
        try:
            return sum(self.consumer.get_watermark_offsets(place, timeout=10)[1] for place in self.places)
        except Exception:
            return 0


def latencies(source: str, target: str, partitions: int) -> list[float]:
    """Milliseconds from a record's time at the source to its arrival at the target."""
    consumer = Consumer(
        {
            "bootstrap.servers": target,
            "group.id": "latency",
            "isolation.level": "read_committed",
            "auto.offset.reset": "latest",
            "fetch.wait.max.ms": 10,
        }
    )
    places = []
    for index in range(partitions):
        place = TopicPartition(f"A.{TOPIC}", index)
        place.offset = consumer.get_watermark_offsets(place, timeout=30)[1]
        places.append(place)
    consumer.assign(places)
    consumer.poll(1)
    producer = Producer({"bootstrap.servers": source, "linger.ms": 0})
    found: list[float] = []
    for at in range(LATENCY_RECORDS):
        producer.produce(TOPIC, b"%d" % time.time_ns(), partition=at % partitions)
        producer.poll(0)
        end = time.monotonic() + LATENCY_PAUSE_S
        while (left := end - time.monotonic()) > 0:
            _take(consumer, left, found)
    producer.flush(60)
    deadline = time.monotonic() + 60
    while len(found) < LATENCY_RECORDS and time.monotonic() < deadline:
        _take(consumer, 0.5, found)
    consumer.close()
    return found[50:]


def _take(consumer: Consumer, seconds: float, found: list[float]) -> None:
    message = consumer.poll(seconds)
    if message is not None and not message.error() and len(message.value()) < 25:
        found.append((time.time_ns() - int(message.value())) / 1e6)


def measure(
    name: str,
    start: Callable[[str, str, int, Path], subprocess.Popen[bytes]],
    broker: type[BrokerProcess],
    record_bytes: int,
    megabytes: int,
    partitions: int,
) -> Result:
    with tempfile.TemporaryDirectory(prefix="mirror-bench-") as folder:
        directory = Path(folder)
        with broker(directory / "source") as source, broker(directory / "target") as target:
            count = fill(source.bootstrap_servers, megabytes, record_bytes, partitions)
            process = start(source.bootstrap_servers, target.bootstrap_servers, partitions, directory)
            try:
                copy = Target(target.bootstrap_servers, partitions)
                deadline = time.monotonic() + PATIENCE_S
                started, began = time.monotonic(), 0.0
                while (ends := copy.ends()) < count:
                    assert process.poll() is None, f"{name} has ended"
                    assert time.monotonic() < deadline, f"{name} has copied {ends} of {count}"
                    if not began and ends:
                        began, first, cpu_before = time.monotonic(), ends, cpu_s(process.pid)
                    time.sleep(0.02)
                if not began:  # so little that it was over before the first look: the start counts too
                    began, first, cpu_before = started, 0, 0.0
                seconds = max(time.monotonic() - began, 0.001)
                copied = (count - first) * record_bytes / 1e6
                cpu = max(cpu_s(process.pid) - cpu_before, 0.001)
                resident = peak_mb(process.pid)
                copy.consumer.close()
                delays = latencies(source.bootstrap_servers, target.bootstrap_servers, partitions)
            finally:
                process.terminate()
                process.wait(60)
    centiles = statistics.quantiles(delays, n=100)
    return Result(
        name, record_bytes, copied / seconds, cpu / (copied / 1000), resident, centiles[49], centiles[98]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="moldau mirror beside MirrorMaker 2")
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--clusters", choices=("moldau", "kafka"), default="moldau")
    parser.add_argument("--sizes", default="1000,100", help="bytes of a record")
    parser.add_argument("--without-mm2", action="store_true", help="ratios are to the first of ours then")
    given = parser.parse_args()
    fetch()
    broker: type[BrokerProcess] = MoldauBroker if given.clusters == "moldau" else ApacheKafka
    mirrors = [("translated", start_ours("translated"))]
    if not given.without_mm2:
        mirrors.insert(0, ("MirrorMaker 2", start_mm2))
    if given.clusters == "moldau":
        mirrors.append(("exact", start_ours("exact")))
    print(f"{given.megabytes} MB, {given.partitions} partitions, between two brokers of {given.clusters}\n")
    print("| record | mirror | MB/s | CPU s per GB | peak MB | latency p50 ms | p99 ms |")
    print("|---|---|---|---|---|---|---|")
    for size in map(int, given.sizes.split(",")):
        base: Result | None = None
        for name, start in mirrors:
            found = measure(name, start, broker, size, given.megabytes, given.partitions)
            base = base or found
            print(
                f"| {size} | {name} | {found.megabytes_per_second:.1f} "
                f"({found.megabytes_per_second / base.megabytes_per_second:.1f}×) "
                f"| {found.cpu_s_per_gb:.1f} ({found.cpu_s_per_gb / base.cpu_s_per_gb:.2f}×) "
                f"| {found.resident_mb:.0f} ({found.resident_mb / base.resident_mb:.2f}×) "
                f"| {found.latency_p50_ms:.0f} "
                f"| {found.latency_p99_ms:.0f} ({found.latency_p99_ms / base.latency_p99_ms:.2f}×) |",
                flush=True,
            )


if __name__ == "__main__":
    main()
