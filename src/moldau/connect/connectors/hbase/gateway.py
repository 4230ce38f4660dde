"""HBase's REST gateway: schemas of tables, cells with their versions, and deletes up to a version.

Several addresses are gateways of one cluster; the next one is asked when one is away.

Invariant: every write carries its version, and may be sent twice. A schema is only ever added to: the
gateway's PUT of a schema would drop the families that it does not name.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from moldau.connect.connectors.hbase.rows import Column, Row
from moldau.connect.connectors.http.client import Answer, HttpClient
from moldau.connect.errors import ConnectException, DataException, RetriableException

_JSON = {"Content-Type": "application/json", "Accept": "application/json"}
#: How the gateway writes that a family keeps its cells.
_FOR_EVER = ("2147483647", "FOREVER")
#: Answered as 503, although waiting does not help.
_FINAL = (b"DoNotRetryIOException", b"NamespaceNotFoundException", b"FailedSanityCheckException")

_KNOWS_BASE64 = (2, 6, 1)
#: What is no row behind the name of a table.
_OTHER_MEANINGS = (".", "..", "schema", "regions", "exists", "scanner", "multiget")


class Refused(DataException):
    """The gateway will not take what it was sent, now or later."""


class Gone(RetriableException):
    """A table or a family is not there, though it was a moment ago."""


class Gateway:
    def __init__(self, urls: Sequence[str], user: str | None, password: str | None, timeout: float) -> None:
        self._clients = [HttpClient(url, _JSON, user, password, timeout) for url in urls]
        self._takes_base64: bool | None = None

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def families(self, table: str) -> dict[str, bool] | None:
        """The families of a table, and whether each keeps its cells for ever; None where there is no such
        table."""
        answer = self._asked("GET", f"/{_quoted(table)}/schema")
        if answer.status == 404:
            return None
        _check(answer)
        found: Mapping[str, Any] = answer.json()
        return {
            str(each["name"]): each.get("TTL", _FOR_EVER[0]) in _FOR_EVER for each in found["ColumnSchema"]
        }

    def add_families(self, table: str, families: Iterable[str]) -> None:
        """Makes the table if there is none."""
        wanted = {"name": table, "ColumnSchema": [{"name": name} for name in sorted(families)]}
        answer = self._asked("POST", f"/{_quoted(table)}/schema", json.dumps(wanted).encode())
        try:
            _check(answer)
        except Refused as error:
            raise ConnectException(f"The table {table} cannot be made so: {error.message}") from None

    def put(self, table: str, rows: Sequence[Row]) -> None:
        # The name in the path means nothing where the body names the rows.
        _check(self._asked("PUT", f"/{_quoted(table)}/rows", _cell_set(rows)))

    def delete_row(self, row: Row, families: Iterable[str]) -> None:
        self._delete(row, [name.encode() for name in sorted(families)])

    def empty_columns(self, row: Row, columns: Iterable[Column]) -> None:
        self._delete(row, [column.raw for column in columns])

    def _delete(self, row: Row, columns: Sequence[bytes]) -> None:
        """Deletes what is as old as the row's version, or older."""
        parts = [row.key, *columns]
        if self._knows_base64():
            key, *names = (base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
            query = "?e=b64"
        elif _is_plain(row.key):
            key, *names = (quote(part, safe="") for part in parts)
            query = ""
        else:
            raise DataException(
                "This gateway cannot delete a row with such a key, which means something else in a path: "
                "HBase 2.6.1 can"
            )
        path = f"/{_quoted(row.table)}/{key}/{','.join(names)}/{row.version}{query}"
        _check(self._asked("DELETE", path))

    def _knows_base64(self) -> bool:
        """An older gateway would take the encoded key for the key itself, and delete another row."""
        if self._takes_base64 is None:
            answer = self._asked("GET", "/version/rest")
            _check(answer)
            self._takes_base64 = takes_base64(str(answer.json().get("Version", "")))
        return self._takes_base64

    def _asked(self, method: str, path: str, body: bytes = b"") -> Answer:
        problem: Exception | None = None
        for number, client in enumerate(list(self._clients)):
            try:
                answer = client.send(method, path, body)
            except RetriableException as error:
                problem = error
                continue
            self._clients = self._clients[number:] + self._clients[:number]
            return answer
        assert problem is not None
        raise problem


def takes_base64(version: str) -> bool:
    """Whether a gateway of this version knows keys in base64 in the path of a delete: those that are not
    older than the oldest with which it was tried."""
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if match is None or "alpha" in version:
        return False
    return tuple(map(int, match.groups())) >= _KNOWS_BASE64


def _is_plain(key: bytes) -> bool:
    """Whether the key means itself in a path, once it is quoted: a star at the end would be any ending."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return False
    return text not in _OTHER_MEANINGS and not text.endswith("*") and text.isprintable()


def _cell_set(rows: Sequence[Row]) -> bytes:
    found: dict[bytes, dict[tuple[Column, int], bytes]] = {}
    for row in rows:
        # Of two cells of one version the later record's counts.
        found.setdefault(row.key, {}).update(
            {(column, row.version): value for column, value in row.cells.items()}
        )
    return json.dumps(
        {
            "Row": [
                {
                    "key": _base64(key),
                    "Cell": [
                        {"column": _base64(column.raw), "timestamp": version, "$": _base64(value)}
                        for (column, version), value in cells.items()
                    ],
                }
                for key, cells in found.items()
            ]
        },
        separators=(",", ":"),
    ).encode()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _quoted(table: str) -> str:
    return quote(table, safe=":")


def _check(answer: Answer) -> None:
    if answer.status < 300:
        return
    said = f"The gateway answers {answer.status}: {_reason(answer)}"
    if answer.status == 404:
        raise Gone(said)
    if answer.status in (401, 403):
        raise ConnectException(said)
    if answer.passes and not any(name in answer.body[:1000] for name in _FINAL):
        raise RetriableException(said)
    raise Refused(said)


def _reason(answer: Answer) -> str:
    """The line of the error, without the places in Java's code behind it."""
    lines = answer.body[:2000].decode("utf-8", "replace").strip().splitlines()
    return " ".join(line.strip() for line in lines[:2])[:300]
