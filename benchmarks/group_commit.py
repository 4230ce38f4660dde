"""What it costs to hold acknowledgements until the disk has the records, as a ratio.

    python -m benchmarks.group_commit [directory]

The same load on two topics of one broker in turn: one as it is by default, one with flush.messages=1. The
producer is librdkafka with acks=all. Throughput has many records in flight; latency has one at a time.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from benchmarks.moldau_broker import MoldauBroker

ROUNDS = 3
RECORDS = 300_000
SINGLE = 1_000
VALUE = b"v" * 100
TOPICS = {"default": {}, "flush.messages=1": {"flush.messages": "1"}}


def throughput(address: str, topic: str, partitions: int) -> float:
    """Acknowledged records a second."""
    producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 5, "log_level": 0})
    began = time.perf_counter()
    for number in range(RECORDS):
        while True:
            try:
                producer.produce(topic, VALUE, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0
    return RECORDS / (time.perf_counter() - began)


def latencies_ms(address: str, topic: str) -> list[float]:
    producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 0})
    found = []
    for _ in range(SINGLE):
        began = time.perf_counter()
        producer.produce(topic, VALUE, partition=0)
        assert producer.flush(30) == 0
        found.append((time.perf_counter() - began) * 1000)
    return found


def main() -> None:
    root = Path(tempfile.mkdtemp(dir=sys.argv[1] if len(sys.argv) > 1 else None))
    with MoldauBroker(root) as broker:
        address = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": address})
        names = {}
        for partitions in (1, 12):
            for number, (label, config) in enumerate(TOPICS.items()):
                names[label, partitions] = name = f"commit-{number}-{partitions}"
                for future in admin.create_topics([NewTopic(name, partitions, 1, config=config)]).values():
                    future.result()
        for partitions in (1, 12):
            rates = {
                label: median(
                    throughput(address, names[label, partitions], partitions) for _ in range(ROUNDS)
                )
                for label in TOPICS
            }
            plain, synced = rates.values()
            print(
                f"{partitions:3} partitions: {plain:9.0f} {synced:9.0f} records/s, ratio {synced / plain:.2f}"
            )
        for label in TOPICS:
            found = latencies_ms(address, names[label, 1])
            cuts = quantiles(found, n=100)
            print(f"{label:>18}: p50 {cuts[49]:6.2f} ms, p99 {cuts[98]:6.2f} ms")


if __name__ == "__main__":
    main()
