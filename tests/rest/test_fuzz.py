"""Requests that are damaged at random, on the wire: each is answered below 500, or its connection closed.

``MOLDAU_REST_FUZZ`` is how many (`make soak` sends a million); ``MOLDAU_REST_FUZZ_SEED`` repeats a run.
"""

import json
import os
import random
import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from moldau.testing import Broker
from moldau.web.limits import Limits

COUNT = int(os.environ.get("MOLDAU_REST_FUZZ", "600"))
SEED = int(os.environ.get("MOLDAU_REST_FUZZ_SEED") or random.randrange(1 << 30))
THREADS = 4
PATIENCE_SECONDS = 60
pytestmark = [pytest.mark.slow, pytest.mark.timeout(0 if COUNT > 10_000 else 120)]

RECORDS = json.dumps({"records": [{"key": "k", "value": {"a": [1, "x", None]}}] * 9}).encode()
BODIES = (
    RECORDS,
    b'{"records": [{"value": "AAEC"}, {"value": null, "partition": 0}]}',
    b'{"partitions": [{"topic": "t", "partition": 0, "offset": 3}]}',
    b'{"data": [{"name": "retention.ms", "value": "1"}]}',
    b'{"value": {"type": "JSON", "data": {"a": 1}}} {"value": {"type": "BINARY", "data": "AA=="}}',
)
PATHS = (
    "/topics/t",
    "/topics/t/partitions/0",
    "/topics/t/partitions/7/offsets",
    "/consumers/g/instances/x/records",
    "/consumers/g/instances/x/positions",
    "/v3/clusters/CLUSTER/topics/t/records",
    "/v3/clusters/CLUSTER/topics/t/configs:alter",
    "/v3/clusters/CLUSTER/consumer-groups/g/lags",
    "/v3/clusters/other/acls",
    "/kafka/v3/clusters",
    "/openapi.json",
)
HEADERS = (
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding : chunked",
    "Content-Length: ٣",
    "Content-Length: -1",
    "Content-Length: 99999999999999999999",
    "Content-Length: 5",
    "Content-Encoding: gzip",
    "Content-Type: multipart/form-data; boundary=x",
    "Content-Type: application/vnd.kafka.avro.v2+json",
    "Accept: application/vnd.kafka.v9+json",
    "Accept: text/html;q=nan",
    "X-HTTP-Method-Override: DELETE",
    "X-Forward: true",
    "X-Forwarded-For: 127.0.0.1",
    "Authorization: Basic !!!",
    "Authorization: Bearer " + "x" * 3000,
    "Expect: 100-continue",
    "Host: " + "h" * 500,
    "X-Request-Id: a b",
)
VALUES = (
    b"NaN",
    b"-Infinity",
    b'{"a":1,"a":2}',
    b"9" * 5000,
    b"[" * 300 + b"]" * 300,
    b'"\\ud800"',
    b"1e999",
)


def request(rng: random.Random, cluster: str) -> bytes:
    """A good request, damaged once or several times."""
    method = rng.choice(("GET", "POST", "POST", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"))
    path = rng.choice(PATHS).replace("CLUSTER", cluster)
    body = rng.choice(BODIES)
    kind = rng.choice(["json", "vnd.kafka.json.v2+json"])
    headers = ["Host: localhost", f"Content-Type: application/{kind}"]
    if rng.random() < 0.3:
        at = rng.randrange(len(path))
        path = (
            path[:at] + rng.choice(["//", ";x=1", "%2F", "/../", "%00", "?a=b", "\\", "%ff", "é"]) + path[at:]
        )
    if rng.random() < 0.4:
        at = rng.randrange(len(body))
        body = body[:at] + rng.choice(VALUES) + body[at + rng.randrange(3) :]
    if rng.random() < 0.3:
        cut = rng.randrange(len(body) + 1)
        size = f"{cut:x}{rng.choice(['', ';ext=1', ' ', 'g', 'ffffffffffff'])}".encode()
        body = size + b"\r\n" + body[:cut] + b"\r\n" + rng.choice([b"0\r\n\r\n", b"", b"-1\r\n\r\n"])
        headers.append("Transfer-Encoding: chunked")
    if "Transfer-Encoding: chunked" not in headers or rng.random() < 0.2:
        headers.append(f"Content-Length: {len(body) + rng.choice([0, 0, 0, 0, 1, -1])}")
    headers += rng.sample(HEADERS, rng.choice([0, 0, 0, 1, 1, 2]))
    rng.shuffle(headers)
    lines = [f"{method} {path} HTTP/1.{rng.choice('1111109')}", *headers]
    found = bytearray("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    for _ in range(rng.choice([0, 0, 0, 1, 4])):
        found[rng.randrange(len(found))] = rng.randrange(256)
    return bytes(found)


def answers(port: int, data: bytes) -> list[int]:
    """The status of every answer; none where the connection was closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as wire:
        found = b""
        try:
            wire.sendall(data)
            wire.shutdown(socket.SHUT_WR)
            while part := wire.recv(65_536):
                found += part
        except (ConnectionResetError, BrokenPipeError):
            pass  # it was closed before everything was read
    return [int(each) for each in re.findall(rb"(?:^|\n|\})HTTP/1\.1 (\d{3}) ", found)]


def send_all(url: str, cluster: str, check: Callable[[bytes, list[int]], None]) -> None:
    port = int(url.rpartition(":")[2])

    def some(thread: int) -> None:
        rng = random.Random(SEED * THREADS + thread)
        for _ in range(COUNT // THREADS):
            data = request(rng, cluster)
            check(data, answers(port, data))

    with ThreadPoolExecutor(THREADS) as pool:
        for each in [pool.submit(some, thread) for thread in range(THREADS)]:
            each.result()


def test_no_damage_breaks_the_proxy(start_at):
    seen: dict[int, int] = {}

    def check(data: bytes, statuses: list[int]) -> None:
        for status in statuses:
            seen[status] = seen.get(status, 0) + 1
            assert status < 500, (SEED, status, data[:3000])

    with Broker({"auto.create.topics.enable": "false"}) as broker:
        broker.create_topic("t", 1)
        with start_at(broker.bootstrap_servers, limits=Limits(max_body_bytes=1 << 20)) as proxy:
            cluster = proxy.http.get("/v3/clusters").json()["data"][0]["cluster_id"]
            send_all(proxy.url, cluster, check)
            assert proxy.http.get("/topics").json() == ["t"]
    # The requests reach handlers, and are not all turned away at the door.
    assert {200, 400, 404, 405} <= seen.keys(), seen


def test_no_damage_lets_anybody_in(start_at):
    def check(data: bytes, statuses: list[int]) -> None:
        assert not [each for each in statuses if each < 400 and each != 100], (SEED, statuses, data[:3000])

    with Broker({"auto.create.topics.enable": "false"}) as broker:
        broker.create_topic("t", 1)
        with start_at(broker.bootstrap_servers, users={"ann": "secret"}) as proxy:
            auth = ("ann", "secret")
            cluster = proxy.http.get("/v3/clusters", auth=auth).json()["data"][0]["cluster_id"]
            send_all(proxy.url, cluster, check)
            assert proxy.http.get("/topics", auth=auth).json() == ["t"]
        assert broker.records("t") == []
