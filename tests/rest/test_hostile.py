"""Requests that mean harm: each is refused, quickly, and nothing is left behind.

The routes are those of the table, so that one that is added is tried too.
"""

import json
import random
import socket
import time

import pytest

from moldau.rest.api.app import TABLE
from moldau.web.limits import Limits

JSON = {"Content-Type": "application/vnd.kafka.json.v2+json"}


def said(proxy, data, *, patience=60.0):
    """What comes back for bytes; the other side closes, or the answer is there."""
    host, _, port = proxy.url.rpartition("/")[2].partition(":")
    with socket.create_connection((host, int(port)), timeout=patience) as wire:
        wire.sendall(data)
        found = b""
        while b"\r\n\r\n" not in found:
            part = wire.recv(65536)
            if not part:
                break
            found += part
        return found


def status(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1") else None


def head(path="/topics/t", *headers, method="POST"):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@pytest.fixture
def proxy(broker, start):
    broker.create_topic("t", 1)
    with start(limits=Limits(max_body_bytes=1 << 20)) as proxy:
        yield proxy
        assert proxy.http.get("/topics").json() == ["t"]
        assert broker.records("t") == []


BODIES = {
    "deep lists": b'{"records":' + b"[" * 100_000,
    "deep and closed": b'{"records":[{"value":' + b"[" * 5_000 + b"]" * 5_000 + b"}]}",
    "deeper than is written": b'{"records":[{"value":' + b"[" * 300 + b"]" * 300 + b"}]}",
    "just too deep": b'{"records":[{"value":' + b"[" * 63 + b"]" * 63 + b"}]}",
    "deep objects": b'{"a":' * 50_000,
    "not a number": b'{"records":[{"value":NaN}]}',
    "infinite": b'{"records":[{"value":-Infinity}]}',
    "a name twice": b'{"records":[],"records":[{"value":1}]}',
    "a very long number": b'{"records":[{"value":' + b"9" * 100_000 + b"}]}",
    "not UTF-8": b'{"records":[{"value":"\xff"}]}',
    "UTF-16": '{"records":[{"value":1}]}'.encode("utf-16"),
    "half a pair": b'{"records":[{"value":"\\ud800"}]}',
    "nothing": b"",
    "two values": b'{"records":[{"value":1}]}{"records":[{"value":1}]}',
    "a list": b"[]",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BODIES)
def test_bodies(proxy, name):
    """As JSON of v2, as a record of v3, as settings of a consumer."""
    body = BODIES[name]
    began = time.monotonic()
    answer = proxy.http.post("/topics/t", content=body, headers=JSON)
    assert answer.status_code in (400, 422), answer.text
    cluster = proxy.http.get("/v3/clusters").json()["data"][0]["cluster_id"]
    record = proxy.http.post(f"/v3/clusters/{cluster}/topics/t/records", content=body)
    assert record.status_code in (200, 400, 422)
    if record.status_code == 200:  # a stream, of which each part is refused
        assert all(json.loads(line)["error_code"] == 400 for line in record.text.splitlines())
    if name != "nothing":
        assert proxy.http.post("/consumers/g", content=body).status_code in (400, 422)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (head("/topics/t", "Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n", {400, 422}),
        (head("/topics/t", "Content-Length: 5", "Content-Length: 6") + b"hello", {400}),
        (head("/topics/t", "Content-Length: \u00b2\u00b3"), {400}),
        (head("/topics/t", "Content-Length: -1"), {400}),
        (head("/topics/t", "Content-Length: 10000000000"), {413}),
        (head("/topics/t", "Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n", {400, 501}),
        (head("/topics/t", "Transfer-Encoding: chunked") + b"zz\r\n", {400}),
        (head("/topics/t", "Content-Encoding: gzip", "Content-Length: 2") + b"{}", {415}),
        (head("/topics/t", "X: " + "y" * 60_000), {431}),
        (b"GET //topics HTTP/1.1\r\nHost: localhost\r\n\r\n", {200, 404}),
        (b"GET /topics;a=b HTTP/1.1\r\nHost: localhost\r\n\r\n", {404}),
        (b"GET /topics/..%2f..%2fetc%2fpasswd HTTP/1.1\r\nHost: localhost\r\n\r\n", {400, 404}),
        (b"GET /topics\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n", {400}),
        (b"DELETE /topics HTTP/1.1\r\nHost: localhost\r\n\r\n", {405}),
        (b"GET /consumers/g HTTP/1.1\r\nHost: localhost\r\nX-HTTP-Method-Override: POST\r\n\r\n", {405}),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", {400, None}),
    ],
)
def test_requests_on_the_wire(proxy, data, expected):
    assert status(said(proxy, data)) in expected


def test_a_body_of_single_bytes_takes_its_time_and_no_more(proxy):
    body = b'{"records":[{"value":' + b"[" * 100
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    assert status(said(proxy, head("/topics/t", "Transfer-Encoding: chunked") + chunks + b"0\r\n\r\n")) == 400


def test_a_record_of_a_stream_has_its_limit(broker, start):
    broker.create_topic("t", 1)
    with start(proxy={"max_record_bytes": 1000}) as proxy:
        cluster = proxy.http.get("/v3/clusters").json()["data"][0]["cluster_id"]
        path = f"/v3/clusters/{cluster}/topics/t/records"
        large = {"value": {"type": "STRING", "data": "x" * 2000}}
        refused = proxy.http.post(path, json=large)
        assert (refused.status_code, "larger than 1000" in refused.text) == (400, True)

        def endless():
            yield b'{"value":'
            for _ in range(100):
                yield b" " * 1000

        answer = proxy.http.post(path, content=endless())
        assert json.loads(answer.text)["error_code"] == 400


@pytest.mark.slow
def test_no_route_is_open_without_a_login(start):
    with start(users={"ann": "secret"}) as proxy:
        for route in TABLE.routes:
            path = route.plain_path.replace("{", "").replace("}", "")
            for spelled in (path, f"/kafka{path}", f"{path}/"):
                answer = proxy.http.request(route.method, spelled, json={})
                assert answer.status_code == 401, (route.method, spelled)
            forged = {"X-Forward": "true", "X-Forwarded-For": "127.0.0.1", "X-Forwarded-User": "ann"}
            assert proxy.http.request(route.method, path, headers=forged).status_code == 401
        assert proxy.http.get("/openapi.json").status_code == 401
        assert proxy.http.get("/topics", auth=("ann", "secret")).status_code == 200


def test_who_asks_too_often_waits(start, refusal):
    limits = Limits(max_requests_per_second=0.001, request_burst=3)
    with start(limits=limits, users={"ann": "a", "bob": "b"}) as proxy:
        answers = [proxy.http.get("/topics", auth=("ann", "a")) for _ in range(4)]
        assert [each.status_code for each in answers] == [200, 200, 200, 429]
        assert refusal(answers[3]) == (429, 429)
        assert int(answers[3].headers["retry-after"]) > 0
        assert proxy.http.get("/topics", auth=("bob", "b")).status_code == 200


@pytest.mark.slow
def test_random_bytes_never_break_it(proxy):
    """Damaged copies of good requests."""
    random_ = random.Random(20)
    body = json.dumps({"records": [{"key": "k", "value": {"a": [1, "x"]}}], "key_schema_id": None}).encode()
    for _ in range(150):
        damaged = bytearray(body)
        for _ in range(random_.randrange(1, 6)):
            damaged[random_.randrange(len(damaged))] = random_.randrange(256)
        path = random_.choice(("/topics/t/partitions/9", "/consumers/g/instances/x/positions"))
        answer = proxy.http.post(path, content=bytes(damaged), headers={"Content-Type": "application/json"})
        assert 400 <= answer.status_code < 500, (bytes(damaged), answer.text)
        assert answer.json()["error_code"]
