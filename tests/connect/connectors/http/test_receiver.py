"""POSTs of real senders: what they are answered, and what is in the topic then; with tasks by themselves, and
with real workers."""

import asyncio
import json
import ssl
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from moldau.base.clock import SystemClock
from moldau.base.names import TopicPartition
from moldau.client.admin.descriptions import READ_COMMITTED
from moldau.client.consumer.consumer import END, Consumer
from moldau.client.transport.cluster import Cluster
from moldau.connect.connector import SourceTaskContext
from moldau.connect.connectors.http.receiver import HttpReceiver, HttpReceiverTask
from moldau.connect.errors import ConfigException, ConnectException
from moldau.connect.records import SourceRecord
from moldau.testing import Broker
from moldau.testing.connect import read
from tests.connect.conftest import Worker, in_cluster, running
from tests.shared.ports import free_port
from tests.shared.waiting import wait_until

STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"


def dotted(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}


@contextmanager
def started(**settings: str) -> Iterator[HttpReceiverTask]:
    task = HttpReceiverTask()
    given = {"topic": "t", "http.port": "0", **dotted(settings)}
    task.start(given, SourceTaskContext("r", 0, lambda _: None, SystemClock().now_ms))
    try:
        yield task
    finally:
        task.stop()


def post(task: HttpReceiverTask, body: bytes = b"x", path: str = "/", **more: Any) -> httpx.Response:
    with httpx.Client(trust_env=False, timeout=60) as http:
        return http.post(f"http://127.0.0.1:{task.port}{path}", content=body, **more)


@pytest.fixture
def senders() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(20) as found:
        yield found


def taken(task: HttpReceiverTask, count: int = 1) -> list[SourceRecord]:
    found: list[SourceRecord] = []
    wait_until(lambda: found.extend(task.poll()) is None and len(found) >= count, lambda: found)
    return found


def test_an_answer_comes_when_the_record_is_written(senders: ThreadPoolExecutor) -> None:
    with started(http_queue_max_records="1") as task:
        first = senders.submit(post, task, b"one")
        assert [record.value for record in taken(task)] == ["one"]
        refused = post(task, b"two")
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        assert "Send it again" in refused.json()["message"]
        assert not first.done()
        task.written()
        assert first.result(60).status_code == 204
        assert task.poll() == []  # what was refused is not written later


def test_bytes_that_wait_have_a_bound(senders: ThreadPoolExecutor) -> None:
    with started(http_body_max_bytes="1000", http_queue_max_bytes="2000") as task:
        first = senders.submit(post, task, b"x" * 1000)
        taken(task)
        assert post(task, b"x" * 1000).status_code == 503
        assert post(task, iter([b"x"])).status_code == 503  # who does not say how much may send all
        task.written()
        assert first.result(60).status_code == 204


def test_a_stop_answers_everybody(senders: ThreadPoolExecutor) -> None:
    with started(batch_size="1") as task:
        given = senders.submit(post, task, b"one")
        taken(task)
        waiting = senders.submit(post, task, b"two")
        wait_until(lambda: task._receiving._inbox._waiting, "the second request does not come")
    assert given.result(60).status_code == 504
    assert waiting.result(60).status_code == 503


def test_nobody_waits_for_ever() -> None:
    with started(http_answer_timeout_ms="1") as task:
        answer = post(task, b"late")
        assert answer.status_code == 503
        assert task.poll() == []  # it was withdrawn


def test_what_is_no_record() -> None:
    given = {"http_topics": "/a=ta,/b=tb", "topic": "", "http_value_format": "json"}
    with started(http_body_max_bytes="10", **given) as task:
        assert post(task, b"{}", "/c").status_code == 404
        assert post(task, b"{", "/a").status_code == 400
        assert post(task, b"x" * 11, "/a").status_code == 413
        assert post(task, b"{}", "/a", headers={"Content-Encoding": "gzip"}).status_code == 415
        answer = httpx.get(f"http://127.0.0.1:{task.port}/a", trust_env=False)
        assert answer.status_code == 405
        assert task.poll() == []


def test_logins(senders: ThreadPoolExecutor) -> None:
    with started(http_user="ann", http_password="pw", http_token="tok") as task:
        for wrong in (
            {},
            {"auth": ("ann", "no")},
            {"auth": ("bob", "pw")},
            {"auth": ("", "")},
            {"headers": {"Authorization": "Bearer no"}},
            {"headers": {"Authorization": "Bearer"}},
        ):
            assert post(task, **wrong).status_code == 401
        good = [
            senders.submit(post, task, auth=("ann", "pw")),
            senders.submit(post, task, headers={"Authorization": "Bearer tok"}),
        ]
        records = taken(task, 2)
        task.written()
        assert [answer.result(60).status_code for answer in good] == [204, 204]
        assert all("authorization" not in {header.key for header in record.headers} for record in records)


def test_tls_and_certificates_of_senders(tls_files: Path, senders: ThreadPoolExecutor) -> None:
    files = {"http.tls.cert": "server.pem", "http.tls.key": "server.key", "http.tls.client.ca": "client.pem"}
    with started(**{name: str(tls_files / file) for name, file in files.items()}) as task:
        url = f"https://127.0.0.1:{task.port}/"
        context = ssl.create_default_context(cafile=str(tls_files / "server.pem"))
        with pytest.raises(httpx.TransportError):
            httpx.post(url, content=b"x", verify=context, trust_env=False)
        context.load_cert_chain(tls_files / "client.pem", tls_files / "client.key")
        sent = senders.submit(httpx.post, url, content=b"x", verify=context, trust_env=False, timeout=60)
        assert [record.value for record in taken(task)] == ["x"]
        task.written()
        assert sent.result(60).status_code == 204


def test_a_port_that_is_taken_and_a_certificate_that_is_none(tmp_path: Path) -> None:
    with (
        started() as task,
        pytest.raises(ConnectException, match="Nothing can be received"),
        started(http_port=str(task.port)),
    ):
        pass
    (tmp_path / "no.pem").write_text("no certificate")
    with (
        pytest.raises(ConnectException, match="certificate cannot be used"),
        started(**{"http.tls.cert": str(tmp_path / "no.pem")}),
    ):
        pass


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"http.topics": "orders"},
        {"topic": "t", "http.key.field": "id"},
        {"topic": "t", "http.value.format": "json", "http.key.field": "id", "http.key.header": "x"},
        {"topic": "t", "http.user": "ann"},
        {"topic": "t", "http.tls.key": "key.pem"},
        {"topic": "t", "http.queue.max.bytes": "10"},
        {"topic": "t", "http.value.format": "xml"},
    ],
)
def test_settings_that_are_refused(bad: dict[str, str]) -> None:
    with pytest.raises(ConfigException):
        read(HttpReceiver, {"http.port": "0", **bad}, count=0, polls=0)


# --- with real workers ----------------------------------------------------------------------------------


@contextmanager
def receiving(worker: Worker, name: str, **settings: str) -> Iterator[httpx.Client]:
    port = free_port()
    config = {"connector.class": "HttpReceiver", "http.port": str(port), "key.converter": STRING}
    config |= {"value.converter": JSON, "value.converter.schemas.enable": "false", **dotted(settings)}
    worker.call("POST", "/connectors", {"name": name, "config": config})
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as http:

        def answers() -> bool:
            try:
                return http.get("/nothing/here").status_code in (404, 405)
            except httpx.TransportError:
                return False

        wait_until(answers, lambda: worker.task(name))
        yield http


def test_what_is_answered_is_in_the_topic(
    broker: Broker, tmp_path: Path, senders: ThreadPoolExecutor
) -> None:
    settings = {"http_value_format": "json", "http_key_field": "id", "http_path_header": "path"}
    with (
        running(broker, tmp_path) as worker,
        receiving(worker, "r1", topic="r1-rest", http_topics="/orders=r1-orders", **settings) as http,
    ):

        def send(number: int) -> int:
            headers = {"X-Trace": f"t{number}", "Cookie": "secret", "Content-Type": "application/json"}
            answer = http.post("/orders", content=json.dumps({"id": number}), headers=headers)
            there = [json.loads(bytes(record.value or b""))["id"] for record in broker.records("r1-orders")]
            assert number in there  # at the moment of the answer
            return answer.status_code

        assert set(senders.map(send, range(100))) == {204}
        records = broker.records("r1-orders")
        assert sorted(json.loads(bytes(record.value or b""))["id"] for record in records) == list(range(100))
        record = next(record for record in records if bytes(record.key or b"") == b"7")
        headers = {str(name): bytes(value or b"") for name, value in record.headers}
        assert (headers["x-trace"], headers["path"]) == (b"t7", b"/orders")
        assert "cookie" not in headers
        assert http.post("/else", content=b'{"id":"z"}').status_code == 204
        assert [bytes(each.key or b"") for each in broker.records("r1-rest")] == [b"z"]


@pytest.mark.slow
def test_a_topic_that_cannot_be_written_to(tmp_path: Path, senders: ThreadPoolExecutor) -> None:
    with Broker() as broker, running(broker, tmp_path) as worker:
        broker.create_topic("t")
        more = {"http_answer_timeout_ms": "500", "http_queue_max_records": "3", "batch_size": "1"}
        with receiving(worker, "r2", topic="t", value_converter=STRING, **more) as http:
            assert http.post("/", content=b"first").status_code == 204
            broker.pause()
            answers: list[Future[httpx.Response]] = [
                senders.submit(http.post, "/", content=f"n{number}") for number in range(10)
            ]
            codes = [answer.result(60).status_code for answer in answers]
            broker.resume()
            assert set(codes) == {503, 504}
            assert codes.count(504) == 1  # one was given out, and is written later
            wait_until(lambda: http.post("/", content=b"last").status_code == 204)
            values = [bytes(record.value or b"") for record in broker.records("t")]
            lost = f"n{codes.index(504)}".encode()
            assert values[:2] == [b"first", lost]
            assert set(values[2:]) == {b"last"}


@pytest.mark.slow
def test_a_pause_holds_senders_back(broker: Broker, tmp_path: Path) -> None:
    more = {"value_converter": STRING, "http_answer_timeout_ms": "300"}
    with running(broker, tmp_path) as worker, receiving(worker, "r5", topic="r5", **more) as http:
        assert http.post("/", content=b"before").status_code == 204
        worker.call("PUT", "/connectors/r5/pause")
        wait_until(lambda: http.post("/", content=b"in it").status_code == 503)
        worker.call("PUT", "/connectors/r5/resume")
        wait_until(lambda: http.post("/", content=b"after").status_code == 204)
        values = [bytes(record.value or b"") for record in broker.records("r5")]
        assert (values[0], values[-1]) == (b"before", b"after")


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ["worker", "process"])
def test_a_connector_that_is_deleted_listens_no_more(broker: Broker, tmp_path: Path, isolation: str) -> None:
    name = f"r3-{isolation}"
    with (
        running(broker, tmp_path) as worker,
        receiving(worker, name, topic=name, value_converter=STRING, isolation=isolation) as http,
    ):
        assert http.post("/", content=b"x").status_code == 204
        assert bytes(broker.records(name)[0].value or b"") == b"x"
        worker.call("DELETE", f"/connectors/{name}")

        def is_closed() -> bool:
            try:
                http.post("/", content=b"y")
            except httpx.TransportError:
                return True
            return False

        wait_until(is_closed)


async def _committed_end(servers: str, topic: str) -> int:
    partition = TopicPartition(topic, 0)
    async with (
        await Cluster.open(servers) as cluster,
        Consumer(cluster, isolation_level=READ_COMMITTED) as consumer,
    ):
        return (await consumer.offsets_of({partition: END}))[partition]


@pytest.mark.slow
@pytest.mark.parametrize("boundary", ["poll", "interval"])
def test_in_transactions_an_answer_comes_behind_the_commit(broker: Broker, boundary: str) -> None:
    more = {"transaction.boundary": boundary, "transaction.boundary.interval.ms": "200"}
    topic = f"r4-{boundary}"
    with (
        in_cluster(broker, f"c-{boundary}", exactly_once_source_support="enabled") as (worker, _),
        receiving(worker, topic, topic=topic, value_converter=STRING, **more) as http,
    ):
        for number in range(5):
            assert http.post("/", content=str(number)).status_code == 204
            assert asyncio.run(_committed_end(broker.bootstrap_servers, topic)) == 2 * number + 2
