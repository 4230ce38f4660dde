"""POSTs to a real service that answers as it is told."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from moldau.connect.connector import SinkTaskContext
from moldau.connect.connectors.http.sink import HttpSink
from moldau.connect.errors import ConfigException, RetriableException
from moldau.connect.records import SinkRecord
from moldau.testing.connect import write


class Service:
    def __init__(self) -> None:
        self.bodies: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.answers: dict[str, int] = {}
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status = next((code for text, code in service.answers.items() if text in body), 200)
                if status == 200:
                    service.bodies.append(body)
                    service.headers.append(dict(self.headers.items()))
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "http://169.254.169.254/")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/in"


@pytest.fixture
def service() -> Iterator[Service]:
    found = Service()
    thread = threading.Thread(target=found.server.serve_forever)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join(60)


def record(offset: int, value: object) -> SinkRecord:
    return SinkRecord(topic="t", partition=0, offset=offset, value=value)


def test_one_record_in_each_post(service: Service) -> None:
    given = {"http.url": service.url, "http.authorization.type": "basic"}
    given |= {"http.user": "ann", "http.password": "pw"}
    write(HttpSink, given, [record(0, {"a": 1}), record(1, "text"), record(2, b"raw")])
    assert service.bodies == ['{"a":1}', "text", "raw"]
    assert service.headers[0]["Authorization"] == "Basic YW5uOnB3"
    assert service.headers[0]["Content-Type"] == "application/json"


def test_batches_and_a_bad_record_in_one(service: Service) -> None:
    service.answers["bad"] = 422
    reported: list[int] = []
    around = {"batch.prefix": "[", "batch.suffix": "]", "batch.separator": ","}
    made = HttpSink({"http.url": service.url, "batching.enabled": "true", "batch.max.size": "3", **around})
    task = made.make_task()
    context = SinkTaskContext("h", 0, report=lambda record, error: reported.append(record.offset))
    task.start(made.task_settings(1)[0], context)
    task.put([record(n, "bad" if n == 4 else str(n)) for n in range(6)])
    task.stop()
    assert service.bodies == ["[0,1,2]", "[3]", "[5]"]
    assert reported == [4]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_service_that_is_busy_is_tried_again(service: Service, status: int) -> None:
    service.answers["x"] = status
    with pytest.raises(RetriableException, match=str(status)):
        write(HttpSink, {"http.url": service.url}, [record(0, "x")])


def test_redirects_and_odd_urls_are_refused(service: Service) -> None:
    service.answers["x"] = 302
    with pytest.raises(Exception, match="answers 302"):
        write(HttpSink, {"http.url": service.url}, [record(0, "x")])
    for url in ("file:///etc/passwd", "gopher://x/", "http://", "http://u:p@host/", "http://h:x/"):
        with pytest.raises(ConfigException):
            write(HttpSink, {"http.url": url}, [])
    with pytest.raises(RetriableException, match="cannot be reached"):
        write(HttpSink, {"http.url": "http://127.0.0.1:1/"}, [record(0, "x")])
