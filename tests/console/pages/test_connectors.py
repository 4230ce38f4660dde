"""Connectors: what a worker answers is shown without its passwords, and actions reach it."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

ANSWER = {
    "sink <b>": {
        "info": {
            "name": "sink <b>",
            "type": "sink",
            "config": {
                "connector.class": "FileSink",
                "db.password": "hunter2",
                "errors.deadletterqueue.topic.name": "dead/x",
            },
        },
        "status": {
            "connector": {"state": "RUNNING"},
            "tasks": [{"id": 0, "state": "FAILED", "worker_id": "w:1", "trace": "<script>boom()\nat"}],
        },
    }
}


@pytest.fixture
def worker() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            asked.append(f"{self.command} {self.path}")
            known = self.command == "GET" or "missing" not in self.path
            body = json.dumps(ANSWER if self.command == "GET" else {"message": "no such one"}).encode()
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = _answer  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()
    thread.join()


def test_connectors(make_console: Callable[..., Any], worker: tuple[str, list[str]]) -> None:
    url, asked = worker
    console = make_console(connect=url)
    page = console.get("/connect")
    assert "sink &lt;b&gt;" in page.text
    assert "FAILED" in page.words
    assert "/groups/view?group=connect-sink+%3Cb%3E" in page.text
    assert "hunter2" not in page.text
    assert "/topics/dead%2Fx/dead-letters" in page.text
    assert "<script>boom" not in page.text
    assert "pause was asked for" in console.post("/connect", name="sink <b>", action="pause").words
    assert "PUT /connectors/sink%20%3Cb%3E/pause" in asked
    assert console.post("/connect", name="missing", action="restart").status == 400
    assert console.post("/connect", name="x", action="explode").status == 400


@pytest.mark.slow
def test_without_a_worker(console: Any, make_console: Callable[..., Any]) -> None:
    assert "knows no worker" in console.get("/connect").words
    away = make_console(connect="http://127.0.0.1:9").get("/connect")
    assert (away.status, "does not answer" in away.words) == (502, True)
