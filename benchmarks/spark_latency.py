"""How long a record takes through a streaming query: produced to a topic, read by Spark, written to another.

Invariant: the query runs in its own process with the source and the sink of one side; this process only
produces and consumes. The clock is that of one machine, and the first seconds, in which everything warms
up, do not count.
"""

from __future__ import annotations

import statistics
import subprocess
import threading
import time
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer

#: How long the first record may take, and how long after it nothing is counted yet.
_PATIENCE_SECONDS = 120.0
_WARM_UP_SECONDS = 8.0
_PAUSE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Latency:
    median_ms: float
    p99_ms: float


def measure(command: list[str], bootstrap_servers: str, source: str, target: str, seconds: float) -> Latency:
    """Runs a query and sends records through it."""
    query = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert query.stdout is not None
    try:
        for line in query.stdout:
            if line.startswith("STREAMING"):
                return _through(bootstrap_servers, source, target, seconds)
        raise RuntimeError(f"{' '.join(command)} failed:\n{query.communicate()[1][-3000:]}")
    finally:
        query.communicate()  # the end of its input is the end of the query


def _through(bootstrap_servers: str, source: str, target: str, seconds: float) -> Latency:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"latency-{time.time_ns()}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([target])
    ending = threading.Event()
    sender = threading.Thread(target=_send, args=(bootstrap_servers, source, ending))
    sender.start()
    found: list[float] = []
    try:
        until = time.time() + _PATIENCE_SECONDS
        count_from = 0.0
        while time.time() < until:
            message = consumer.poll(0.2)
            if message is None or message.error():
                continue
            sent = float(message.value() or b"0")
            if not count_from:
                count_from = time.time() + _WARM_UP_SECONDS
                until = count_from + seconds
            elif sent >= count_from:
                found.append((time.time() - sent) * 1000)
    finally:
        ending.set()
        sender.join()
        consumer.close()
    if len(found) < 20:
        raise RuntimeError(f"only {len(found)} records came through the query in {seconds} s")
    return Latency(statistics.median(found), statistics.quantiles(found, n=100)[98])


def _send(bootstrap_servers: str, topic: str, ending: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0})
    while not ending.wait(_PAUSE_SECONDS):
        producer.produce(topic, repr(time.time()).encode())
        producer.poll(0)
    producer.flush(10)
