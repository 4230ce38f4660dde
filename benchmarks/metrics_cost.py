"""What metrics cost: inside a request, a scrape with many partitions, and produce and fetch with scrapes.

    python -m benchmarks.metrics_cost [--partitions 10000] [--records 1000000] [--rounds 5] [--only PART]

Inside a request: the same frames go through a broker in this process (``request_path.py``), in turns with
its times taken as always and with none taken. The other brokers are processes of their own, with the settings
as they come. For the scrape a broker has that many partitions; each scrape is read whole, and while one runs
another client asks for metadata all the time: its longest wait is what a scrape costs others. Of two brokers
one has a metrics port, which is scraped every second; both take and give the same records in turns, round by
round, so that what else the machine does falls on both. The figure is CPU time of the broker for each record,
which depends on that least.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import statistics
import struct
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks import request_path
from benchmarks.brokers import free_port
from benchmarks.moldau_broker import MoldauBroker
from moldau.broker.monitoring.requests import BETWEEN_SECONDS, SKIPPED, RequestMetrics, Tally
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import NewTopic
from moldau.client.transport.cluster import Cluster
from moldau.protocol.api_keys import ApiKey

_TOPICS = 100
_SCRAPES = 7
_TIMINGS = 100_000
_VALUE = bytes(100)
_PARTITIONS = 4
#: So many requests may pass before one is timed.
_NEVER = 1 << 60


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
                producer.produce("load", _VALUE, partition=number % _PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(300) == 0
    return (cpu_seconds(broker.pid) - before) / records * 1e6


def fetch(broker: MoldauBroker, records: int) -> float:
    """The same for the newest records, read once."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "metrics-cost"})
    partitions = [TopicPartition("load", number) for number in range(_PARTITIONS)]
    for each in partitions:
        each.offset = consumer.get_watermark_offsets(each, timeout=60)[1] - records // _PARTITIONS
    before = cpu_seconds(broker.pid)
    consumer.assign(partitions)
    left = records // _PARTITIONS * _PARTITIONS
    while left:
        left -= len(consumer.consume(min(left, 10_000), timeout=1.0))
    spent = cpu_seconds(broker.pid) - before
    consumer.close()
    return spent / records * 1e6


def measure_load(folder: Path, records: int, rounds: int) -> None:
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
        found: dict[str, list[tuple[float, float]]] = {"produce": [], "fetch": []}
        for _ in range(rounds):
            found["produce"].append((produce(without, records), produce(metered, records)))
            found["fetch"].append((fetch(without, records), fetch(metered, records)))
        stop.set()
        scraping.join()
    for name, pairs in found.items():
        tell(f"{name}, a record, scraped every second", pairs)


def tell(what: str, pairs: list[tuple[float, float]]) -> None:
    """Pairs are microseconds without and with."""
    before, after = (statistics.median(each) for each in zip(*pairs, strict=True))
    more = statistics.median(with_ / without - 1 for without, with_ in pairs)
    print(f"{what}: {before:.3f} µs of CPU without, {after:.3f} with; {more:+.2%}")


def measure_timing() -> None:
    """What it takes to time one request, of which a busy API has a bounded number."""
    tally = RequestMetrics().tally(ApiKey.PRODUCE, 13)

    def spent(is_timed: bool) -> float:
        began = time.process_time()
        for _ in range(_TIMINGS):
            if is_timed:
                at = tally.begin()
                tally.left = 0
                tally.answered(at, at + 1e-6, at - 1e-6, 100, None)
        return (time.process_time() - began) / _TIMINGS

    cost = statistics.median(spent(True) - spent(False) for _ in range(9))
    few, rest = (SKIPPED + 1) / BETWEEN_SECONDS, cost * 1e6 / (SKIPPED + 1)
    share = cost / BETWEEN_SECONDS
    print(f"timing one request: {cost * 1e6:.2f} µs of CPU; {share:.2%} of a core for a busy API")
    print(f"and {rest:.3f} µs for each request of one that is asked more than {few:,.0f} times a second")


async def measure_path(rounds: int) -> None:
    """Requests of a busy broker, with their times taken and not."""
    async with request_path.started() as (node, cases):
        for name, (frame, times) in cases.items():
            tally = node.dispatch.requests.tally(*struct.unpack_from(">hh", frame, 4))

            def spent(left: int, tally: Tally = tally, frame: bytes = frame, times: int = times) -> float:
                tally.left = left
                return request_path.cpu_seconds(node, frame, times) * 1e6

            spent(0)
            tell(name, [(spent(_NEVER), spent(0)) for _ in range(rounds)])


async def make_load_topic(servers: str) -> None:
    async with await Cluster.open(servers) as cluster:
        raise_errors(await Admin(cluster).create_topics([NewTopic("load", _PARTITIONS)]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("path", "scrape", "load"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="moldau-metrics-") as folder:
        if given.only in (None, "path"):
            measure_timing()
            asyncio.run(measure_path(3 * given.rounds))
        if given.only in (None, "scrape"):
            measure_scrapes(Path(folder), given.partitions)
        if given.only in (None, "load"):
            measure_load(Path(folder), given.records, given.rounds)


if __name__ == "__main__":
    main()
