"""The metrics of a running pipeline over HTTP, for Prometheus to scrape.

Invariant: answers GET /metrics and nothing else, on a thread of its own that ends with ``close``.
"""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from moldau.pipelines.directory import PipelineState
from moldau.pipelines.errors import PipelineError
from moldau.pipelines.metrics import prometheus_text

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricsServer:
    """``port`` 0 takes a free one; the attribute ``port`` is the one that it listens on."""

    def __init__(self, port: int, state: Callable[[], PipelineState], host: str = "127.0.0.1") -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.split("?")[0] != "/metrics":
                    self.send_error(404, "only /metrics is here")
                    return
                body = prometheus_text(state()).encode()
                self.send_response(200)
                self.send_header("Content-Type", _CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Logs nothing: every scrape would be a line."""

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise PipelineError(
                f"metrics cannot be served on port {port}: {error.strerror}; choose another"
            ) from None
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
