"""The load: Kafka's own ProducerPerformance and our small Java programs, their output as values.

The same tools with the same arguments for either broker. Java does the work, so that Python's own speed is
measured in the broker only.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.apache_kafka import java

LOAD_TIMEOUT_S = 600.0
# 20000 records sent, 17152.658662 records/sec (1.64 MB/sec), 257.93 ms avg latency, 613.00 ms max latency, …
PERF_LINE = re.compile(r"records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency")
BYTES_IN_MB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Throughput:
    records_per_s: float
    mb_per_s: float


@dataclass(frozen=True, slots=True)
class Latencies:
    """Microseconds of each request, in order."""

    microseconds: tuple[int, ...]

    @property
    def mean_ms(self) -> float:
        return sum(self.microseconds) / len(self.microseconds) / 1000

    def percentile_ms(self, percent: float) -> float:
        ordered = sorted(self.microseconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] / 1000


def produce(
    bootstrap_servers: str,
    topic: str,
    records: int,
    record_size: int,
    properties: dict[str, str],
    warm_up_records: int = 0,
    transaction_duration_ms: int | None = None,
) -> Throughput:
    """ProducerPerformance as fast as it goes; the figures are those after its warm-up."""
    arguments = ["--bootstrap-server", bootstrap_servers, "--topic", topic, "--throughput", "-1"]
    arguments += ["--num-records", str(records), "--record-size", str(record_size)]
    if warm_up_records:
        arguments += ["--warmup-records", str(warm_up_records)]
    if transaction_duration_ms is not None:
        arguments += ["--transaction-duration-ms", str(transaction_duration_ms)]
    if properties:
        arguments += ["--command-property", *(f"{key}={value}" for key, value in properties.items())]
    printed = run("org.apache.kafka.tools.ProducerPerformance", arguments)
    found = PERF_LINE.findall(printed)
    if not found:
        raise RuntimeError(f"ProducerPerformance printed no figures:\n{printed}")
    records_per_s, mb_per_s, _ = map(float, found[-1])
    return Throughput(records_per_s, mb_per_s)


def consume(bootstrap_servers: str, topic: str, records: int, passes: int) -> list[Throughput]:
    """Passes over the whole topic after one that warms up."""
    printed = run("AssignedConsumer", [bootstrap_servers, topic, str(records), str(passes + 1)])
    rows = [line.split() for line in printed.splitlines()][1:]
    return [
        Throughput(int(records) / float(seconds), int(size) / BYTES_IN_MB / float(seconds))
        for seconds, records, size in rows
    ]


def consume_in_group(bootstrap_servers: str, topic: str, records: int) -> Throughput:
    """Kafka's ConsumerPerformance, one pass with a group of its own; its rates without the time to join."""
    arguments = ["--bootstrap-server", bootstrap_servers, "--topic", topic, "--hide-header"]
    printed = run("org.apache.kafka.tools.ConsumerPerformance", [*arguments, "--num-records", str(records)])
    fields = printed.strip().splitlines()[-1].split(", ")
    mb_per_s, records_per_s = float(fields[8]), float(fields[9])
    return Throughput(records_per_s, mb_per_s)


def end_to_end(
    bootstrap_servers: str, topic: str, acks: str, fetch_max_wait_ms: int, records: int, warm_up_records: int
) -> Latencies:
    arguments = [bootstrap_servers, topic, acks, fetch_max_wait_ms, records, warm_up_records, 100]
    printed = run("EndToEnd", [str(argument) for argument in arguments])
    return Latencies(tuple(int(line) for line in printed.splitlines()))


def random_reads(
    bootstrap_servers: str, topics: Sequence[str], reads: int, warm_up_reads: int, seed: int
) -> dict[str, tuple[Latencies, Latencies]]:
    """For each topic, reads at random offsets and look-ups of random timestamps, the topics in turn."""
    printed = run("RandomReads", [bootstrap_servers, str(reads), str(warm_up_reads), str(seed), *topics])
    rows = [line.split() for line in printed.splitlines()]
    return {
        topic: (
            Latencies(tuple(int(fetch) for name, fetch, _ in rows if name == topic)),
            Latencies(tuple(int(look_up) for name, _, look_up in rows if name == topic)),
        )
        for topic in topics
    }


def run(main_class: str, arguments: Sequence[str]) -> str:
    """One Java program to its end; what it printed."""
    ended = subprocess.run(
        java(main_class, *arguments), text=True, capture_output=True, timeout=LOAD_TIMEOUT_S
    )
    if ended.returncode != 0:
        raise RuntimeError(
            f"{main_class} ended with {ended.returncode}:\n{ended.stdout[-2000:]}{ended.stderr[-4000:]}"
        )
    return ended.stdout
