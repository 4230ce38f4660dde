"""v3's records: one with its status, many with a line each, and a stream in both directions."""

import asyncio
import base64
import json
import socket
from types import SimpleNamespace

import pytest

from moldau.rest.api.v3.records import _stream
from moldau.web.limits import Limits
from tests.shared.waiting import wait_until


@pytest.fixture
def records(broker, http):
    broker.create_topic("t", 2)
    cluster = http.get("/v3/clusters").json()["data"][0]["cluster_id"]
    return f"/v3/clusters/{cluster}/topics/t/records"


def text(value):
    return {"type": "STRING", "data": value}


def test_one_record(broker, http, records):
    body = {
        "partition_id": 1,
        "headers": [{"name": "Header-1", "value": "SGVhZGVyLTE="}, {"name": "none"}],
        "key": {"type": "BINARY", "data": "Zm9vYmFy"},
        "value": {"type": "JSON", "data": {"foo": "bar"}},
        "timestamp": "2021-02-05T19:14:42Z",
    }
    answer = http.post(records, json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == {
        "error_code": 200,
        "cluster_id": records.split("/")[3],
        "topic_name": "t",
        "partition_id": 1,
        "offset": 0,
        "timestamp": "2021-02-05T19:14:42Z",
        "key": {"type": "BINARY", "size": 6},
        "value": {"type": "JSON", "size": 13},
    }
    (found,) = broker.records("t", 1)
    assert (found.key, found.value, found.timestamp) == (b"foobar", b'{"foo":"bar"}', 1612552482000)
    assert list(found.headers) == [("Header-1", b"Header-1"), ("none", None)]


def test_keys_and_values_may_be_missing(broker, http, records):
    assert "key" not in http.post(records, json={"value": text("v")}).json()
    assert "value" not in http.post(records, json={"key": {"type": "JSON", "data": None}}).json()
    assert http.post(records, json={}).status_code == 200
    assert sorted((each.key, each.value) for each in broker.records("t") if each.value) == [(None, b"v")]


def lines(answer):
    return [json.loads(line) for line in answer.text.splitlines()]


def test_many_records_have_a_line_each(broker, http, records):
    body = b"".join(
        json.dumps({"value": text(str(number)), "partition_id": 0}).encode() for number in range(50)
    )
    answer = http.post(records, content=body + b' \n{"value":{"type":"BINARY","data":7}}')
    assert answer.status_code == 200
    found = lines(answer)
    assert [each["offset"] for each in found[:-1]] == list(range(50))
    assert (found[-1]["error_code"], set(found[-1])) == (400, {"error_code", "message"})
    assert len(broker.records("t")) == 50


def test_a_stream_of_unknown_length(broker, http, records):
    def body():
        for number in range(3):
            record = json.dumps({"value": text("ž" * 10), "partition_id": 0}).encode()
            yield record[: number * 7]
            yield record[number * 7 :]
        yield b'{"value": {"type": "NO"}}'
        yield b'{"value": '

    found = lines(http.post(records, content=body()))
    assert [each["error_code"] for each in found] == [200, 200, 200, 400, 400]
    assert "ends in the middle" in found[-1]["message"]
    assert len(broker.records("t")) == 3


def test_a_report_comes_while_the_body_goes_on(broker, start):
    """Each record is sent when the report of the one before is there."""
    broker.create_topic("t", 1)
    with start() as proxy:
        cluster = proxy.http.get("/v3/clusters").json()["data"][0]["cluster_id"]
        host, _, port = proxy.url.rpartition("/")[2].partition(":")
        with socket.create_connection((host, int(port)), timeout=60) as wire, wire.makefile("rb") as answer:
            head = f"POST /v3/clusters/{cluster}/topics/t/records HTTP/1.1\r\nHost: localhost\r\n"
            wire.sendall(
                f"{head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
            )
            record = json.dumps({"value": text("v")}).encode()
            for number in range(3):
                wire.sendall(b"%x\r\n%s\r\n" % (len(record), record))
                while not (line := answer.readline()).startswith(b"{"):
                    assert line
                assert json.loads(line)["offset"] == number
            (session,) = proxy.service.sessions._sessions.values()
            assert session.users == 2, "the proxy itself, and the stream"
            wire.sendall(b"0\r\n\r\n")
            assert b"0\r\n\r\n" in answer.read(7)
            wait_until(lambda: session.users == 1)


class _Records:
    """A call with many records, none of which can be read."""

    request_id = "r"
    proxy = SimpleNamespace(options=SimpleNamespace(max_record_bytes=100))
    limits = Limits()

    def topic(self):
        return "t"

    async def body_parts(self):
        yield b'{"more": 1}' * 5000


def test_a_stream_whose_reports_nobody_reads_can_be_ended():
    async def give_up():
        stream = _stream(_Records(), SimpleNamespace(users=0))
        assert b"more" in await anext(stream)
        async with asyncio.timeout(60):
            await stream.aclose()

    asyncio.run(give_up())


def test_a_client_that_goes_leaves_what_it_sent(broker, start):
    broker.create_topic("t", 1)
    with start() as proxy:
        cluster = proxy.http.get("/v3/clusters").json()["data"][0]["cluster_id"]
        host, _, port = proxy.url.rpartition("/")[2].partition(":")
        with socket.create_connection((host, int(port)), timeout=60) as wire, wire.makefile("rb") as answer:
            head = f"POST /v3/clusters/{cluster}/topics/t/records HTTP/1.1\r\nHost: localhost\r\n"
            wire.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            record = json.dumps({"value": text("v")}).encode()
            wire.sendall(b"%x\r\n%s\r\n" % (len(record), record))
            while not (line := answer.readline()).startswith(b"{"):
                assert line
        assert len(broker.records("t")) == 1
        assert proxy.http.get("/topics").status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "error_code"),
    [
        (b"", 400, 400),
        (b"[]", 400, 400),
        (b'{"value": ', 400, 400),
        (b'{"value": NaN}', 400, 400),
        (b'{"more": 1}', 400, 400),
        (b'{"value": 1}', 400, 400),
        (b'{"value": {"type": "XML", "data": 1}}', 400, 400),
        (b'{"value": {"type": ["JSON"], "data": 1}}', 400, 400),
        (b'{"value": {"type": "STRING", "data": 1}}', 400, 400),
        (b'{"value": {"type": "BINARY", "data": "%"}}', 400, 400),
        (b'{"value": {"data": 1}}', 422, 42206),
        (b'{"value": {"type": "AVRO", "schema": 1}}', 400, 400),
        (b'{"value": {"schema": "{}"}}', 400, 400),
        (b'{"value": {"type": "AVRO", "subject_name_strategy": "X"}}', 400, 400),
        (b'{"partition_id": -1}', 400, 400),
        (b'{"partition_id": 77}', 404, 40403),
        (b'{"headers": 1}', 400, 400),
        (b'{"headers": [{"name": 1}]}', 400, 400),
        (b'{"headers": [{"name": "a", "value": "%"}]}', 400, 400),
        (b'{"timestamp": "yesterday"}', 400, 400),
        (b'{"timestamp": "1969-12-31T23:59:59Z"}', 400, 400),
        (b'{"value": {"type": "STRING", "data": "\\ud800"}}', 400, 400),
    ],
)
def test_records_that_are_refused(broker, http, records, refusal, body, status, error_code):
    assert refusal(http.post(records, content=body)) == (status, error_code)
    assert broker.records("t") == []


def test_a_topic_of_another_cluster(http, records, refusal):
    other = records.replace(records.split("/")[3], "other")
    assert refusal(http.post(other, json={"value": text("v")})) == (404, 404)


def test_a_record_that_the_broker_refuses_leaves_the_others(broker, http, records):
    """They travel in one batch, which the broker takes as a whole or not at all."""
    times = [None, "2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z", None]
    body = "".join(
        json.dumps(
            {
                "partition_id": 0,
                "key": text("k"),
                "value": text(str(place)),
                "timestamp": time,
                "headers": [{"name": "h", "value": "YQ=="}],
            }
        )
        for place, time in enumerate(times)
    )
    found = lines(http.post(records, content=body.encode()))
    assert [each["error_code"] for each in found] == [200, 200, 40002, 200]
    written = [(each.key, each.value, each.headers) for each in broker.records("t")]
    assert written == [(b"k", value, (("h", b"a"),)) for value in (b"0", b"1", b"3")]
    assert broker.records("t")[1].timestamp == 1577836800000


def test_few_records_of_which_one_has_no_key(broker, http):
    broker.create_topic("compacted", 1, configs={"cleanup.policy": "compact"})
    media = {"Content-Type": "application/vnd.kafka.json.v2+json"}
    body = {"records": [{"key": "a", "value": 1}, {"value": 2}, {"key": "b", "value": 3}]}
    offsets = http.post("/topics/compacted", json=body, headers=media).json()["offsets"]
    assert [each["error_code"] for each in offsets] == [None, 50002, None]
    assert [each.value for each in broker.records("compacted")] == [b"1", b"3"]


@pytest.mark.slow
def test_a_record_that_the_broker_refuses(broker, http, records, refusal):
    large = {"type": "BINARY", "data": base64.b64encode(bytes(1_500_000)).decode()}
    assert refusal(http.post(records, json={"value": large})) == (400, 40002)
