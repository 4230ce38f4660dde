import threading
import urllib.error
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from moldau.base.http_client import fetch


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/there":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"0123456789")
        else:
            self.send_response(302)
            self.send_header("Location", "/there")
            self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_answer_has_a_bound(url: str) -> None:
    assert fetch(f"{url}/there", timeout_seconds=10, most_bytes=100) == b"0123456789"
    assert fetch(f"{url}/there", timeout_seconds=10, most_bytes=4) == b"0123"


def test_a_redirect_is_an_error(url: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        fetch(f"{url}/elsewhere", timeout_seconds=10, most_bytes=100)
    assert refused.value.code == 302
    refused.value.close()
