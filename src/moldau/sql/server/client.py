"""A session with a SQL server over HTTP; ksqlDB's own server will do for what both know.

Invariant: the same results as a session in this process: sentences, tables, rows that come. Properties of SET
are kept here and sent with every statement.
"""

import asyncio
import base64
import http.client
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

from moldau.sql.errors import SqlError
from moldau.sql.parser import parse_statement, split
from moldau.sql.running.session import DEFAULTS, Flow, Message, Result, Table
from moldau.sql.statements import PrintTopic, Query, SetProperty

_JSON = "application/vnd.ksql.v1+json"
_LINES = "application/vnd.ksqlapi.delimited.v1"
_SECONDS = 600.0


class RemoteSession:
    """``async for result in RemoteSession("http://127.0.0.1:8088").run("SHOW STREAMS")``."""

    def __init__(self, url: str, user: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        """``user`` is NAME:PASSWORD."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SqlError(f"{url} is no address of a server, such as http://127.0.0.1:8088.")
        self._host, self._port, self._is_tls = parts.hostname, parts.port, parts.scheme == "https"
        self._tls = tls
        self._headers = {"Content-Type": _JSON}
        if user is not None:
            self._headers["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
        self.properties: dict[str, str] = {}

    async def run(self, text: str) -> AsyncIterator[Result]:
        """The results of all statements of a text, one after the other."""
        for each in split(text):
            statement = parse_statement(each)
            if isinstance(statement, SetProperty):
                yield self._set(statement)
            elif isinstance(statement, Query):
                yield await self._rows(each, statement)
            elif isinstance(statement, PrintTopic):
                yield Flow(("RECORD",), self._printed(each))
            else:
                body = {"ksql": f"{each};", "streamsProperties": self.properties}
                for entity in await asyncio.to_thread(self._ask, "/ksql", body):
                    yield result_of(entity)

    def _set(self, statement: SetProperty) -> Message:
        if statement.value is None:
            self.properties.pop(statement.name, None)
        else:
            self.properties[statement.name] = statement.value
        value = self.properties.get(statement.name, DEFAULTS.get(statement.name))
        return Message(f"{statement.name} is {value} now")

    async def _rows(self, text: str, query: Query) -> Table | Flow:
        body = {"sql": f"{text};", "properties": self.properties}
        lines = self._lines("/query-stream", body, _LINES)
        head = json.loads(await anext(lines, "{}"))
        names = tuple(head.get("columnNames", ()))
        rows = _rows_of(lines)
        if query.emit is not None:
            return Flow(names, rows)
        return Table(names, tuple([each async for each in rows if each is not None]))

    async def _printed(self, text: str) -> AsyncIterator[tuple[Any, ...] | None]:
        body = {"ksql": f"{text};", "streamsProperties": self.properties}
        async for line in self._lines("/query", body, _JSON):
            yield (line,) if line else None

    # --- HTTP -----------------------------------------------------------------------------------------

    def _ask(self, path: str, body: Any) -> Any:
        with self._sent(path, body, _JSON) as response:
            return json.loads(response.read())

    async def _lines(self, path: str, body: Any, accept: str) -> AsyncIterator[str]:
        """Lines as they come; each wait is in a thread, so that the rest of the program goes on."""
        with await asyncio.to_thread(self._sent, path, body, accept) as response:
            while line := await asyncio.to_thread(response.readline):
                yield line.decode().strip()

    def _sent(self, path: str, body: Any, accept: str) -> http.client.HTTPResponse:
        """An answer that is no problem; its connection ends with it."""
        connection = self._connection()
        where = f"{self._host}:{connection.port}"
        headers = {**self._headers, "Accept": accept, "Connection": "close"}
        try:
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            if response.status == 200:
                return response
            raise SqlError(_complaint(where, response.status, response.read()))
        except OSError as error:
            raise SqlError(f"{where} does not answer: {error}") from error

    def _connection(self) -> http.client.HTTPConnection:
        if self._is_tls:
            context = self._tls or ssl.create_default_context()
            return http.client.HTTPSConnection(self._host, self._port, timeout=_SECONDS, context=context)
        return http.client.HTTPConnection(self._host, self._port, timeout=_SECONDS)


def _complaint(where: str, status: int, body: bytes) -> str:
    try:
        found = json.loads(body)
        return str(found["message"])
    except (ValueError, KeyError, TypeError):
        return f"{where} answers {status}"


async def _rows_of(lines: AsyncIterator[str]) -> AsyncIterator[tuple[Any, ...] | None]:
    async for line in lines:
        if not line:
            yield None
            continue
        found = json.loads(line)
        if isinstance(found, dict):
            raise SqlError(str(found.get("message", found)))
        yield tuple(found)


# --- from ksqlDB's JSON ------------------------------------------------------------------------------


def result_of(entity: dict[str, Any]) -> Result:
    """An entity as a sentence or a table."""
    match entity.get("@type"):
        case "streams" | "tables" as kind:
            heads = (
                f"{kind[:-1].capitalize()} Name",
                "Kafka Topic",
                "Key Format",
                "Value Format",
                "Windowed",
            )
            names = ("name", "topic", "keyFormat", "valueFormat", "isWindowed")
            return Table(heads, tuple(tuple(each.get(name) for name in names) for each in entity[kind]))
        case "queries":
            queries = [
                (
                    each["id"],
                    each.get("state"),
                    ", ".join(each["sinkKafkaTopics"]),
                    _line(each["queryString"]),
                )
                for each in entity["queries"]
            ]
            return Table(("Query ID", "Status", "Sink", "Query"), tuple(queries))
        case "kafka_topics":
            topics = [
                (t["name"], len(t["replicaInfo"]), max(t["replicaInfo"], default=0)) for t in entity["topics"]
            ]
            return Table(("Kafka Topic", "Partitions", "Partition Replicas"), tuple(topics))
        case "function_names":
            functions = [(each["name"], each["type"]) for each in entity["functions"]]
            return Table(("Function Name", "Category"), tuple(functions))
        case "properties":
            pairs = [(each["name"], each["value"]) for each in entity["properties"]]
            return Table(("Property", "Value"), tuple(pairs))
        case "sourceDescription":
            return _described(entity["sourceDescription"])
        case "queryDescription":
            return Message(str(entity["queryDescription"]["topology"]))
        case "currentStatus":
            return Message(str(entity["commandStatus"]["message"]))
    return Message(str(entity.get("message", json.dumps(entity))))


def _described(source: dict[str, Any]) -> Table:
    mark = " (primary key)" if source["type"] == "TABLE" else " (key)"
    rows = [
        (each["name"], _type(each["schema"]) + (mark if each.get("type") == "KEY" else ""))
        for each in source["fields"]
    ]
    if source.get("extended"):
        rows += [
            ("— type", source["type"]),
            ("— topic", source["topic"]),
            ("— formats", f"key {source['keyFormat']}, value {source['valueFormat']}"),
            ("— written by", ", ".join(each["id"] for each in source["writeQueries"]) or "others"),
            ("— read by", ", ".join(each["id"] for each in source["readQueries"]) or "nobody"),
            ("— statement", _line(source["statement"])),
        ]
    return Table(("Field", "Type"), tuple(rows), title=source["name"])


def _type(schema: dict[str, Any]) -> str:
    match schema["type"]:
        case "ARRAY":
            return f"ARRAY<{_type(schema['memberSchema'])}>"
        case "MAP":
            return f"MAP<STRING, {_type(schema['memberSchema'])}>"
        case "STRUCT":
            inner = (f"{each['name']} {_type(each['schema'])}" for each in schema["fields"])
            return f"STRUCT<{', '.join(inner)}>"
        case "DECIMAL" if "parameters" in schema:
            return f"DECIMAL({schema['parameters']['precision']}, {schema['parameters']['scale']})"
    return str(schema["type"])


def _line(text: str) -> str:
    return " ".join(text.split())
