"""What metrics cost: a scrape with many partitions, and produce with and without them.

    python -m benchmarks.metrics_cost [--partitions 10000] [--records 1000000] [--rounds 5]

Brokers are processes of their own, with the settings as they come. For the scrape a broker has that many
partitions; each scrape is read whole, and while one runs another client asks for metadata all the time: its
longest wait is what a scrape costs others. For produce, brokers with and without a metrics port (which is
scraped every second) take the same records in turns, round by round, so that what else the machine does falls
on both; the figure is CPU time of the broker for each record, which depends on that least.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import statistics
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.brokers import free_port
from benchmarks.moldau_broker import MoldauBroker
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import NewTopic
from moldau.client.transport.cluster import Cluster

_TOPICS = 100
_SCRAPES = 7
_VALUE = bytes(100)


def scrape(port: int) -> tuple[float, int]:
    """Seconds and bytes of one scrape."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    began = time.perf_counter()
    connection.request("GET", "/metrics")
    size = len(connection.getresponse().read())
    connection.close()
    return time.perf_counter() - began, size


async def make_topics(servers: str, partitions: int) -> None:
    async with await Cluster.open(servers, request_timeout_ms=300_000, api_timeout_ms=300_000) as cluster:
        each = max(1, partitions // _TOPICS)
        for begin in range(0, _TOPICS, 10):
            wanted = [NewTopic(f"topic-{number:03d}", each) for number in range(begin, begin + 10)]
            raise_errors(await Admin(cluster).create_topics(wanted, timeout_ms=300_000))


async def longest_wait(servers: str, stop: threading.Event) -> float:
    """The longest that a client waits for a small answer until it is told to stop, in seconds."""
    longest = 0.0
    async with await Cluster.open(servers) as cluster:
        while not stop.is_set():
            began = time.perf_counter()
            await cluster.topics(["topic-000"])
            longest = max(longest, time.perf_counter() - began)
    return longest


def measure_scrapes(folder: Path, partitions: int) -> None:
    port = free_port()
    with MoldauBroker(folder / "scrape", {"moldau.metrics.port": str(port)}) as broker:
        asyncio.run(make_topics(broker.bootstrap_servers, partitions))
        stop, found = threading.Event(), [0.0]

        def wait() -> None:
            found[0] = asyncio.run(longest_wait(broker.bootstrap_servers, stop))

        waiting = threading.Thread(target=wait)
        waiting.start()
        times = [scrape(port) for _ in range(_SCRAPES)]
        stop.set()
        waiting.join()
        median = statistics.median(seconds for seconds, _ in times)
        print(f"scrape with {partitions} partitions: {median * 1000:.0f} ms, {times[-1][1] / 1e6:.1f} MB")
        print(f"longest wait of another client meanwhile: {found[0] * 1000:.0f} ms")


def cpu_seconds(pid: int) -> float:
    """Of all threads, to the nanosecond."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in tasks) / 1e9


def produce(broker: MoldauBroker, records: int) -> float:
    """Microseconds of the broker's CPU for each record."""
    before = cpu_seconds(broker.pid)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, "acks": "all"})
    for number in range(records):
        while True:
            try:
                producer.produce("load", _VALUE, partition=number % 4)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(300) == 0
    return (cpu_seconds(broker.pid) - before) / records * 1e6


def measure_produce(folder: Path, records: int, rounds: int) -> None:
    port = free_port()
    with (
        MoldauBroker(folder / "without") as without,
        MoldauBroker(folder / "with", {"moldau.metrics.port": str(port)}) as metered,
    ):
        for each in (without, metered):
            asyncio.run(make_load_topic(each.bootstrap_servers))
            produce(each, records // 10)
        stop = threading.Event()

        def scrape_for_ever() -> None:
            while not stop.wait(1.0):
                scrape(port)

        scraping = threading.Thread(target=scrape_for_ever)
        scraping.start()
        found: dict[str, list[float]] = {"without": [], "with": []}
        for _ in range(rounds):
            found["without"].append(produce(without, records))
            found["with"].append(produce(metered, records))
        stop.set()
        scraping.join()
    for name, values in found.items():
        print(f"produce {name} metrics: {statistics.median(values):.3f} µs of CPU a record")
    more = statistics.median(found["with"]) / statistics.median(found["without"]) - 1
    print(f"with metrics, scraped every second: {more:+.1%}")


async def make_load_topic(servers: str) -> None:
    async with await Cluster.open(servers) as cluster:
        raise_errors(await Admin(cluster).create_topics([NewTopic("load", 4)]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="moldau-metrics-") as folder:
        measure_scrapes(Path(folder), given.partitions)
        measure_produce(Path(folder), given.records, given.rounds)


if __name__ == "__main__":
    main()
