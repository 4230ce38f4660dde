"""The web console: time, bytes and memory of its pages with many topics and groups.

    python -m benchmarks.console [--topics N] [--groups N] [--bootstrap-server HOST:PORT]

A real broker and a real console, each a process of its own; the client is this process, over one connection.
The first page is asked for when the console has just started and knows nothing; the others follow, each asked
for several times. With an address the cluster there is used, which gets the topics and groups. Where there is
a Chromium, it loads pages too, with an empty cache, as on this machine and as on a phone: what that costs is
read from Chromium's own trace (``page_trace.py``).
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import re
import statistics
import tempfile
import time
from dataclasses import astuple

from benchmarks import page_trace
from benchmarks.registry import process, resident_megabytes
from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import NewTopic
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.producer.producer import Producer
from moldau.client.transport.cluster import Cluster

_READY = re.compile(r"moldau console ready: http://([^:]+):(\d+)")
_BROKER_READY = re.compile(r"127\.0\.0\.1:\d+")
_PAGES = {
    "overview": "/c/local",
    "topics": "/c/local/topics",
    "topics, the last page": "/c/local/topics?page=19",
    "topics, by size": "/c/local/topics?sort=size",
    "groups": "/c/local/groups",
    "one topic": "/c/local/topics/stream-0000",
    "messages": "/c/local/topics/stream-0000/messages",
    "configs": "/c/local/topics/stream-0000/configs",
}
_TIMES = 9
_LOADS = 5


async def fill(servers: str, topics: int, groups: int) -> None:
    async with await Cluster.open(servers, request_timeout_ms=120_000) as cluster:
        admin, asked = Admin(cluster), Groups(cluster)
        for begin in range(0, topics, 100):
            names = [f"stream-{number:04d}" for number in range(begin, min(begin + 100, topics))]
            await admin.create_topics([NewTopic(name, 1) for name in names], timeout_ms=120_000)
        async with await Producer.open(cluster) as producer:
            for number in range(20_000):
                value = b'{"id": %d, "town": "Praha", "price": %d}' % (number, number % 900)
                await producer.send(f"stream-{number % min(topics, 50):04d}", value, key=b"key-%d" % number)
        for begin in range(0, groups, 50):
            await asyncio.gather(
                *(
                    asked.commit(
                        f"group-{number:03d}",
                        {TopicPartition(f"stream-{number % topics:04d}", 0): CommittedOffset(0)},
                    )
                    for number in range(begin, min(begin + 50, groups))
                )
            )


def ask(connection: http.client.HTTPConnection, path: str) -> tuple[float, int]:
    """Milliseconds and bytes of one page."""
    began = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    size = len(answer.read())
    assert answer.status == 200, (path, answer.status)
    return (time.perf_counter() - began) * 1000, size


def measure_in_browser(url: str) -> None:
    with page_trace.opened() as browser:
        if browser is None:
            print("no Chromium is installed: what pages cost a browser is not measured")
            return
        for device in (page_trace.HERE, page_trace.PHONE):
            print(f"Chromium {browser.version}, as on {device.name}; medians of {_LOADS} loads")
            print(f"{'page':<24}{'first':>8}{'largest':>9}{'script':>8}{'blocked':>9}{'shift':>8}{'KiB':>6}")
            for name, path in _PAGES.items():
                loads = [page_trace.load(browser, url + path, device) for _ in range(_LOADS)]
                costs = [statistics.median(each) for each in zip(*map(astuple, loads), strict=True)]
                first, largest, script, blocked, shift, size = costs
                print(f"{name:<24}{first:>8.0f}{largest:>9.0f}{script:>8.1f}{blocked:>9.0f}", end="")
                print(f"{shift:>8.3f}{size / 1024:>6.0f}")


def measure(servers: str) -> None:
    with process("console", "--port", "0", "-b", servers) as (running, line):
        ready = _READY.search(line)
        assert ready is not None, line
        connection = http.client.HTTPConnection(ready[1], int(ready[2]), timeout=60)
        at_start = resident_megabytes(running.pid)
        first, size = ask(connection, "/c/local/topics")
        files = sum(
            ask(connection, f"/assets/{name}")[1] for name in ("console.css", "console.js", "icon.svg")
        )
        beside = f"{files / 1024:.0f} KiB of style and script"
        print(f"first page (topics): {first:.0f} ms, {size / 1024:.0f} KiB and {beside}")
        print(f"{'page':<24}{'median ms':>10}{'worst ms':>10}{'KiB':>8}")
        for name, path in _PAGES.items():
            found = [ask(connection, path) for _ in range(_TIMES)]
            times = [each for each, _ in found]
            kib = found[0][1] / 1024
            print(f"{name:<24}{statistics.median(times):>10.0f}{max(times):>10.0f}{kib:>8.0f}")
        measure_in_browser(f"http://{ready[1]}:{ready[2]}")
        now = resident_megabytes(running.pid)
        print(f"memory of the console: {at_start:.0f} MB at its start, {now:.0f} MB now")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--bootstrap-server", help="A cluster that is there already.")
    options = parser.parse_args()
    print(f"{options.topics} topics, {options.groups} groups")
    if options.bootstrap_server:
        asyncio.run(fill(options.bootstrap_server, options.topics, options.groups))
        measure(options.bootstrap_server)
        return
    with (
        tempfile.TemporaryDirectory() as directory,
        process("broker", "--port", "0", "--data-dir", directory) as (_, line),
    ):
        servers = _BROKER_READY.search(line)
        assert servers is not None, line
        asyncio.run(fill(servers[0], options.topics, options.groups))
        measure(servers[0])


if __name__ == "__main__":
    main()
