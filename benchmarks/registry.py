"""The schema registry: registrations and look-ups per second, a start with many schemas, memory.

    python -m benchmarks.registry [--schemas N] [--clients N]

A real broker and a real registry, each a process of its own, and clients in threads of this one over
keep-alive connections: what is measured includes the client. A registration is one transaction to the broker,
so its rate is that of commits; look-ups never leave the registry. The schemas of the second start are written
to the topic as records, as another registry would leave them. A start counts from the process to its ready
line.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from moldau.client.producer.producer import Producer
from moldau.client.registry.schema_registry import RegistryClient
from moldau.client.transport.cluster import Cluster
from moldau.registry.records import Entry, SchemaKey, SchemaValue, write

_READY = re.compile(r"moldau registry ready: (http\S+) \((\d+) subjects")
_BROKER_READY = re.compile(r"127\.0\.0\.1:\d+")
_REGISTERED = 1_200
_LOOK_UPS = 3_000


def schema(number: int) -> str:
    """A record of ten fields, like nobody else's."""
    fields = ",".join(f'{{"name":"field{at}","type":["null","string"],"default":null}}' for at in range(9))
    own = f'{{"name":"own{number}","type":"long"}}'
    return f'{{"type":"record","name":"Order{number}","namespace":"shop","fields":[{own},{fields}]}}'


@contextmanager
def process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A command of ours, with the first line that it prints."""
    command = [sys.executable, "-m", "moldau", *arguments]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    try:
        yield running, running.stdout.readline()
    finally:
        running.terminate()
        running.wait(30)
        running.stdout.close()


def resident_megabytes(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def rate(clients: int, count: int, call: Callable[[int], object]) -> float:
    """Calls per second, ``clients`` at a time."""
    with ThreadPoolExecutor(clients) as threads:
        began = time.perf_counter()
        for _ in threads.map(call, range(count)):
            pass
        return count / (time.perf_counter() - began)


def measure(url: str, clients: int) -> None:
    with RegistryClient(url) as client:

        def register(number: int) -> int:
            return client.register(f"subject-{number % 200}-value", schema(number))

        client.set_config("NONE")
        register(0)
        one = rate(1, 200, lambda number: register(number + 1))
        many = rate(clients, _REGISTERED - 201, lambda number: register(number + 201))
        print(f"  registrations, one client: {one:6.0f} a second")
        print(f"  registrations, {clients} clients:  {many:6.0f} a second", flush=True)
        asked = {
            "by id": lambda number: client.call("GET", f"/schemas/ids/{number % _REGISTERED + 1}"),
            "latest version": lambda number: client.version(f"subject-{number % 200}-value"),
            "registered again": lambda number: register(number % _REGISTERED),
            "compatibility check": lambda number: client.incompatibilities(
                f"subject-{number % 200}-value", schema(number), version="latest"
            ),
        }
        for name, call in asked.items():
            print(f"  {name}, {clients} clients: {rate(clients, _LOOK_UPS, call):6.0f} a second", flush=True)


async def fill(address: str, count: int) -> None:
    """Writes versions to the topic, a thousand subjects of them, beginning above all ids that were given."""
    async with await Cluster.open(address) as cluster:
        producer = await Producer.open(cluster)
        for number in range(count):
            subject, version = f"filled-{number % 1000}-value", number // 1000 + 1
            value = SchemaValue(subject, version, _REGISTERED + number + 1, schema(_REGISTERED + number))
            key, data = write(Entry(SchemaKey(subject, version), value))
            await producer.send("_schemas", data, key)
        await producer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schemas", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=8)
    arguments = parser.parse_args()
    count: int = arguments.schemas
    with (
        tempfile.TemporaryDirectory() as root,
        process("broker", "--port", "0", "--data-dir", root) as (_, line),
    ):
        found = _BROKER_READY.search(line)
        if found is None:
            raise SystemExit(f"the broker did not start: {line}")
        options = ("registry", "--port", "0", "-b", found[0])
        began = time.perf_counter()
        with process(*options) as (registry, line):
            seconds, ready = time.perf_counter() - began, _READY.match(line)
            if ready is None:
                raise SystemExit(f"the registry did not start: {line}")
            print(f"  start, empty: {seconds:.2f} s, {resident_megabytes(registry.pid):.0f} MB")
            measure(ready[1], arguments.clients)
            print(f"  memory after {_REGISTERED} registrations: {resident_megabytes(registry.pid):.0f} MB")
        asyncio.run(fill(found[0], count))
        began = time.perf_counter()
        with process(*options) as (registry, _):
            seconds = time.perf_counter() - began
            held = _REGISTERED + count
            print(f"  start with {held} schemas: {seconds:.2f} s, {resident_megabytes(registry.pid):.0f} MB")


if __name__ == "__main__":
    main()
