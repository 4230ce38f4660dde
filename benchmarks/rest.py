"""The REST proxy: records and requests per second, p99 of requests, and memory of a thousand consumers.

    python -m benchmarks.rest [--seconds N] [--clients 1,10,100] [--consumers N]

A real broker and a real proxy, each a process of its own, and beside them a server that sends every body
back: the same web package, the same number of bytes, nothing done with them. What the proxy reaches of that
is the ratio. Clients are keep-alive connections of this process on plain sockets, which cost far less than a
library, and each sends its next request when the answer to the last one is there. On a machine with few cores
all of them share them: the ratio counts, not the rate.

What is written is JSON of about 100 bytes a record, with 1 and with 100 records in a request, and 100 with
keys of their own; what is read is an answer of up to 100 records, from an instance of its own for each
client. The echo of a read sends as many bytes back as the proxy answers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_BROKER_READY = re.compile(r"127\.0\.0\.1:\d+")
_URL = re.compile(r"http://127\.0\.0\.1:(\d+)")
_JSON = "application/vnd.kafka.json.v2+json"
_ECHO = """
import asyncio
from moldau.web.application import Application, Service
from moldau.web.openapi import Description
from moldau.web.routes import Route, RouteTable, Text
from moldau.web.server import Listener, ListenerOptions, serve

async def echo(call):
    return Text((await call.raw_body()).decode())

async def main():
    table = RouteTable([Route("POST", "/echo", echo, "Echo")])
    with Listener(ListenerOptions()) as listener:
        await serve(Application(Service(Description("Echo", "1"), table)), listener,
                    lambda: print(listener.url, flush=True), asyncio.Event())

try:
    import uvloop
    uvloop.run(main())
except ImportError:
    asyncio.run(main())
"""


@dataclass(slots=True)
class Measured:
    """Requests of one run, and how long each took."""

    seconds: float = 0.0
    #: Of the server.
    cpu_seconds: float = 0.0
    took: list[float] = field(default_factory=list)
    records: int = 0

    @property
    def rate(self) -> float:
        return len(self.took) / self.seconds

    @property
    def cpu_ms(self) -> float:
        """Of one request."""
        return self.cpu_seconds / len(self.took) * 1000

    @property
    def p99_ms(self) -> float:
        return sorted(self.took)[int(len(self.took) * 0.99)] * 1000


@dataclass(frozen=True, slots=True)
class Server:
    port: int
    pid: int


class Client:
    """HTTP/1.1 over one connection, as much of it as this needs."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    def close(self) -> None:
        self._writer.close()

    async def ask(self, method: str, path: str, body: bytes = b"", media: str = "application/json") -> bytes:
        lines = (
            f"{method} {path} HTTP/1.1",
            "Host: 127.0.0.1",
            f"Content-Type: {media}",
            f"Content-Length: {len(body)}",
        )
        self._writer.write("\r\n".join((*lines, "", "")).encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        status = int(answer[9:12])
        found = re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)
        data = await self._reader.readexactly(int(found[1])) if found else b""
        if status >= 300:
            raise SystemExit(f"{method} {path} was answered with {status}: {data[:300]!r}")
        return data


Step = Callable[[Client, int], Awaitable[int]]


async def measure(server: Server, clients: int, seconds: float, step: Step) -> Measured:
    """Every client repeats its step until the time is over; a step says how many records it moved."""
    measured = Measured()
    connections = [Client(server.port) for _ in range(clients)]
    for each in connections:
        await each.open()
    end = time.perf_counter() + seconds

    async def work(number: int) -> None:
        while (began := time.perf_counter()) < end:
            moved = await step(connections[number], number)
            measured.records += moved
            measured.took.append(time.perf_counter() - began)

    began, cpu = time.perf_counter(), cpu_seconds(server.pid)
    await asyncio.gather(*(work(number) for number in range(clients)))
    measured.seconds = time.perf_counter() - began
    measured.cpu_seconds = cpu_seconds(server.pid) - cpu
    for each in connections:
        each.close()
    return measured


def produce_body(records: int, *, keyed: bool = False) -> bytes:
    value = {"id": 123456, "customer": "customer-42", "note": "x" * 50}
    keys = [{"key": f"customer-{number}"} if keyed else {} for number in range(records)]
    return json.dumps({"records": [{**key, "value": value} for key in keys]}).encode()


def shown(name: str, measured: Measured, echo: Measured) -> None:
    records = measured.records / measured.seconds
    cpu = echo.cpu_ms / measured.cpu_ms
    print(
        f"  {name:46} {measured.rate:7.0f} requests/s {records:9.0f} records/s  p99 {measured.p99_ms:7.1f} ms"
        f"   echo {echo.rate:7.0f}/s p99 {echo.p99_ms:7.1f} ms   ratio {measured.rate / echo.rate:4.2f}"
        f"   CPU {measured.cpu_ms:.2f} ms, echo {echo.cpu_ms:.2f} ms, ratio {cpu:4.2f}",
        flush=True,
    )


async def produce(
    rest: Server, echo: Server, clients: int, seconds: float, records: int, *, keyed: bool = False
) -> None:
    body = produce_body(records, keyed=keyed)

    async def write(client: Client, number: int) -> int:
        answer = await client.ask("POST", "/topics/bench", body, _JSON)
        assert b'"error_code":null' in answer
        return records

    async def send_back(client: Client, number: int) -> int:
        await client.ask("POST", "/echo", body)
        return 0

    await measure(rest, clients, seconds / 4, write)  # connections, topic, compiled code
    measured = await measure(rest, clients, seconds, write)
    await measure(echo, clients, seconds / 4, send_back)
    echoed = await measure(echo, clients, seconds, send_back)
    what = f"{records} with keys" if keyed else f"{records}"
    shown(f"produce, {what} in a request, {clients} clients", measured, echoed)


async def consume(rest: Server, echo: Server, clients: int, seconds: float) -> None:
    """Instances read the topic again and again from its beginning; an answer has about a hundred records."""
    setup = Client(rest.port)
    await setup.open()
    place = {"partitions": [{"topic": "bench", "partition": 0}]}
    beginning = json.dumps(place).encode()
    paths = []
    for number in range(clients):
        settings = {"name": f"c{clients}-{number}", "format": "json", "auto.commit.enable": "false"}
        await setup.ask("POST", f"/consumers/g{clients}-{number}", json.dumps(settings).encode())
        paths.append(f"/consumers/g{clients}-{number}/instances/{settings['name']}")
        await setup.ask("POST", f"{paths[-1]}/assignments", beginning)
        await setup.ask("POST", f"{paths[-1]}/positions/beginning", beginning)
    sizes: list[int] = []

    async def read(client: Client, number: int) -> int:
        answer = await client.ask("GET", f"{paths[number]}/records?max_bytes=9000&timeout=1000")
        if answer == b"[]":
            await client.ask("POST", f"{paths[number]}/positions/beginning", beginning)
            return 0
        sizes.append(len(answer))
        return answer.count(b'"offset"')

    await measure(rest, clients, seconds / 4, read)
    measured = await measure(rest, clients, seconds, read)
    size = round(sum(sizes) / len(sizes))
    body = b"x" * size

    async def send_back(client: Client, number: int) -> int:
        await client.ask("POST", "/echo", body)
        return 0

    echoed = await measure(echo, clients, seconds, send_back)
    shown(f"consume, answers of {size // 1024} KiB, {clients} clients", measured, echoed)
    setup.close()
    await setup.open()  # the server closes a connection that was idle for a while
    for path in paths:
        await setup.ask("DELETE", path)
    setup.close()


async def many_consumers(rest: Server, count: int) -> None:
    before = resident_megabytes(rest.pid)
    client = Client(rest.port)
    await client.open()
    for number in range(count):
        await client.ask("POST", f"/consumers/m{number}", b'{"name": "c", "format": "json"}')
        place = b'{"partitions": [{"topic": "bench", "partition": 0}]}'
        await client.ask("POST", f"/consumers/m{number}/instances/c/assignments", place)
    after = resident_megabytes(rest.pid)
    print(f"  memory: {before:.0f} MB, with {count} consumer instances {after:.0f} MB", flush=True)
    client.close()


@contextmanager
def process(*command: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A program, with the first line that it prints."""
    running = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    try:
        yield running, running.stdout.readline()
    finally:
        running.terminate()
        running.wait(60)
        running.stdout.close()


def resident_megabytes(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def port_of(line: str) -> int:
    found = _URL.search(line)
    if found is None:
        raise SystemExit(f"it did not start: {line}")
    return int(found[1])


async def run(rest: Server, echo: Server, arguments: argparse.Namespace) -> None:
    clients = [int(each) for each in arguments.clients.split(",")]
    for records, keyed in ((1, False), (100, False), (100, True)):
        for each in clients:
            await produce(rest, echo, each, arguments.seconds, records, keyed=keyed)
    for each in clients:
        await consume(rest, echo, each, arguments.seconds)
    await many_consumers(rest, arguments.consumers)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--clients", default="1,10,100")
    parser.add_argument("--consumers", type=int, default=1000)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as root,
        process("-m", "moldau", "broker", "--port", "0", "--data-dir", root) as (_, line),
    ):
        found = _BROKER_READY.search(line)
        if found is None:
            raise SystemExit(f"the broker did not start: {line}")
        with (
            process("-m", "moldau", "rest", "--port", "0", "--alone", "-b", found[0]) as (proxy, ready),
            process("-c", _ECHO) as (echo, url),
        ):
            rest, plain = Server(port_of(ready), proxy.pid), Server(port_of(url), echo.pid)
            asyncio.run(run(rest, plain, arguments))


if __name__ == "__main__":
    main()
