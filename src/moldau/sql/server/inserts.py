"""``/inserts-stream``: rows as lines of JSON, each answered when it is in its topic.

Invariant: a row is written in the order of its line; the first that cannot be written ends the answer.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

from moldau.client import KafkaError
from moldau.sql.errors import SqlError
from moldau.sql.server.problems import BAD_REQUEST, BAD_STATEMENT, SERVER_ERROR
from moldau.sql.server.service import SqlService
from moldau.web.json_text import read_json
from moldau.web.limits import Limits


class _Refused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


async def inserted(service: SqlService, body: AsyncIterator[bytes], limits: Limits) -> AsyncIterator[bytes]:
    """Acknowledgements, a line each; the first line of the body names the stream."""
    target: str | None = None
    number = 0
    try:
        async for line in _lines(body, limits.max_body_bytes):
            row = _object(line)
            if target is None:
                target = await _target(service, row)
                continue
            await service.session.insert(target, [_by_column(row)])
            yield _json({"status": "ok", "seq": number})
            number += 1
    except _Refused as error:
        yield _json(_failure(error.code, str(error), number))
    except SqlError as error:
        yield _json(_failure(BAD_STATEMENT, str(error), number))
    except KafkaError as error:
        yield _json(_failure(SERVER_ERROR, error.message or error.code.name, number))


async def _lines(body: AsyncIterator[bytes], longest: int) -> AsyncIterator[bytes]:
    rest = b""
    async for part in body:
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
        if len(rest) > longest:
            raise _Refused(BAD_REQUEST, f"A line is longer than {longest} bytes")
    if rest.strip():
        yield rest


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = read_json(line)
    except ValueError as error:
        raise _Refused(BAD_REQUEST, f"A line is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise _Refused(BAD_REQUEST, "A line is no JSON object")
    return found


async def _target(service: SqlService, row: dict[str, Any]) -> str:
    name = row.get("target")
    if not isinstance(name, str):
        raise _Refused(BAD_REQUEST, "The first line needs a text 'target'")
    await service.refresh()
    source = service.session.catalogue.find(name.strip("`") if name.startswith("`") else name.upper())
    if source.kind != "STREAM":
        raise _Refused(BAD_REQUEST, f"{source.name} is a table: rows are inserted into streams")
    return source.name


def _by_column(row: dict[str, Any]) -> dict[str, Any]:
    return {name.strip("`") if name.startswith("`") else name.upper(): value for name, value in row.items()}


def _failure(code: int, message: str, number: int) -> dict[str, Any]:
    return {"status": "error", "seq": number, "error_code": code, "message": message}


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"
