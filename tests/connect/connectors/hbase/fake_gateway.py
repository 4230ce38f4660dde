"""A small REST gateway of HBase in this process: tables with families, cells with versions, deletes up to a
version, and a scan. What it answers was seen at HBase 2.6.1.

Invariant: a cell that a delete covers is not shown, however late the cell comes.
"""

import base64
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from tests.shared.ports import free_port

#: hbase.client.keyvalue.maxsize
MAX_CELL_BYTES = 10 * 1024 * 1024
Answer = tuple[int, Any]


def decoded(text: str) -> bytes:
    return base64.b64decode(text)


class Table:
    def __init__(self) -> None:
        self.families: dict[str, dict[str, str]] = {}
        self.cells: dict[tuple[bytes, bytes], dict[int, bytes]] = {}
        #: Row, and column or family, up to a version.
        self.deletes: list[tuple[bytes, bytes, int]] = []

    def shown(self) -> Iterator[tuple[bytes, bytes, int, bytes]]:
        for (row, column), versions in sorted(self.cells.items()):
            places = (column, column.partition(b":")[0])
            covered = max((end for key, at, end in self.deletes if key == row and at in places), default=-1)
            newest = max(versions)
            if newest > covered:
                yield row, column, newest, versions[newest]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news."""


class FakeGateway:
    def __init__(self) -> None:
        self.port = free_port()
        self.tables: dict[str, Table] = {}
        #: Methods and paths of what was asked, and the headers of the last request.
        self.asked: list[tuple[str, str]] = []
        self.headers: dict[str, str] = {}
        #: Answers that are given in place of the real ones, by the method.
        self.canned: dict[str, Answer] = {}
        self.version = "2.6.1"
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._connections: list[socket.socket] = []

    def start(self) -> None:
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                gateway._connections.append(self.connection)

            def do(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                gateway.asked.append((self.command, self.path))
                gateway.headers = dict(self.headers.items())
                known = gateway.canned.get(self.command)
                status, found = known or gateway.answer(self.command, self.path, body)
                data = found if isinstance(found, bytes) else b"" if found is None else _json(found)
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_POST = do_DELETE = do  # noqa: N815

            def log_message(self, *_: Any) -> None: ...

        self._server = _Server(("127.0.0.1", self.port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join(60)
            for connection in self._connections:  # one that is kept open would be answered on
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._connections.clear()
            self._server.server_close()
            self._server = None

    def answer(self, method: str, target: str, body: bytes) -> Answer:
        parts = urlsplit(target)
        first, second, *rest = parts.path.strip("/").split("/")
        if (first, second) == ("version", "rest"):
            return 200, {"REST": "0.0.3", "Version": self.version}
        if second == "schema":
            return self._schema(method, first, body)
        table = self.tables.get(first)
        if table is None:
            return 404, b"Not found\norg.apache.hadoop.hbase.TableNotFoundException: " + first.encode()
        if method == "PUT":
            return self._put(table, json.loads(body))
        if method == "DELETE":
            return self._delete(table, second, rest, parts.query == "e=b64")
        return 200, {"Row": _rows(table)}

    def _schema(self, method: str, name: str, body: bytes) -> Answer:
        if method == "POST":
            table = self.tables.setdefault(name, Table())
            for each in json.loads(body)["ColumnSchema"]:
                table.families.setdefault(each["name"], {"TTL": "2147483647", **each})
            return 200, None
        found = self.tables.get(name)
        if found is None:
            return 404, b"Not found"
        return 200, {"name": name, "ColumnSchema": list(found.families.values())}

    def _put(self, table: Table, model: Any) -> Answer:
        cells = [
            (decoded(row["key"]), decoded(cell["column"]), cell["timestamp"], decoded(cell["$"]))
            for row in model["Row"]
            for cell in row["Cell"]
        ]
        for key, column, _, value in cells:
            if column.partition(b":")[0].decode() not in table.families:
                return 404, b"Not found\nNoSuchColumnFamilyException"
            if len(value) > MAX_CELL_BYTES or not key:
                return 400, b"Bad request\njava.lang.IllegalArgumentException: KeyValue size too large"
        for key, column, version, value in cells:
            table.cells.setdefault((key, column), {})[version] = value
        return 200, None

    def _delete(self, table: Table, key: str, rest: list[str], is_base64: bool) -> Answer:
        def read(text: str) -> bytes:
            if is_base64:
                return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            return unquote_to_bytes(text)

        row, (columns, version) = read(key), rest
        if not is_base64 and row.endswith(b"*"):
            return 400, b"Bad request\nthe gateway would take this for any ending"
        for column in columns.split(","):
            if read(column).partition(b":")[0].decode() not in table.families:
                return 404, b"Not found\nNoSuchColumnFamilyException"
            table.deletes.append((row, read(column), int(version)))
        return 200, None


def _rows(table: Table) -> list[dict[str, Any]]:
    found: dict[bytes, list[dict[str, Any]]] = {}
    for row, column, version, value in table.shown():
        cell = {"column": _base64(column), "timestamp": version, "$": _base64(value)}
        found.setdefault(row, []).append(cell)
    return [{"key": _base64(row), "Cell": cells} for row, cells in found.items()]


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
