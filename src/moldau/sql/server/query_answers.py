"""Rows of SELECT and PRINT as answers in pieces, in the forms that ksqlDB has for them.

``/query`` answers one JSON array of objects, ``/query-stream`` a head and an array for each row: by lines, or
as one JSON array.

Invariant: what is sent is valid in its form at every end but that of a client who leaves. A query that is
looked at ends with its client, its limit, ``/close-query`` or the server.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from moldau.client import KafkaError
from moldau.sql.running.session import Flow, Table
from moldau.sql.server.entities import schema_text, type_text
from moldau.sql.statements import ColumnDefinition

#: An empty line now and then finds out that a client has gone.
_HEARTBEAT = b"\n"


@dataclass(frozen=True, slots=True)
class Answer:
    query_id: str
    columns: tuple[ColumnDefinition, ...]
    rows: Table | Flow
    #: None where the query cannot be ended from outside, as it ends by itself.
    closed: asyncio.Event | None = None
    limit: int | None = None


async def as_rows(answer: Answer) -> AsyncIterator[bytes]:
    """The form of ``/query``."""
    header = {"queryId": answer.query_id, "schema": schema_text(answer.columns)}
    yield b"[" + _json({"header": header})
    count = 0
    try:
        async for row in _rows(answer):
            if row is None:
                yield _HEARTBEAT
                continue
            count += 1
            yield b",\n" + _json({"row": {"columns": row}})
        if answer.closed is not None:
            final = "Limit Reached" if count == answer.limit else "Query Terminated"
            yield b",\n" + _json({"finalMessage": final})
    except KafkaError as error:
        yield b",\n" + _json({"errorMessage": {"message": error.message or error.code.name}})
    yield b"]\n"


async def as_lines(answer: Answer) -> AsyncIterator[bytes]:
    """The form of ``/query-stream`` by lines."""
    yield _json(_head(answer)) + b"\n"
    try:
        async for row in _rows(answer):
            yield _HEARTBEAT if row is None else _json(row) + b"\n"
    except KafkaError as error:
        yield _json(_failure(error)) + b"\n"


async def as_array(answer: Answer) -> AsyncIterator[bytes]:
    """The form of ``/query-stream`` as one JSON array."""
    yield b"[" + _json(_head(answer))
    try:
        async for row in _rows(answer):
            yield _HEARTBEAT if row is None else b"," + _json(row)
    except KafkaError as error:
        yield b"," + _json(_failure(error))
    yield b"]"


async def as_text(answer: Answer) -> AsyncIterator[bytes]:
    """Records of PRINT, one on each line."""
    try:
        async for row in _rows(answer):
            if row is None:
                yield _HEARTBEAT
                continue
            place, time, key, value = row
            partition, _, offset = str(place).partition(":")
            yield (
                f"rowtime: {time}, key: {'<null>' if key is None else key}, "
                f"value: {'<null>' if value is None else value}, partition: {partition}, offset: {offset}\n"
            ).encode()
    except KafkaError as error:
        yield f"error: {error.message or error.code.name}\n".encode()


def _head(answer: Answer) -> dict[str, Any]:
    return {
        "queryId": answer.query_id,
        "columnNames": [each.name for each in answer.columns],
        "columnTypes": [type_text(each.type) for each in answer.columns],
    }


def _failure(error: KafkaError) -> dict[str, Any]:
    return {"status": "error", "error_code": 50000, "message": error.message or error.code.name}


async def _rows(answer: Answer) -> AsyncIterator[Sequence[Any] | None]:
    if isinstance(answer.rows, Table):
        for row in answer.rows.rows:
            yield row
        return
    # None comes at least twice a second, so an end from outside is noticed.
    async for each in answer.rows.rows:
        if answer.closed is not None and answer.closed.is_set():
            return
        yield each


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")
