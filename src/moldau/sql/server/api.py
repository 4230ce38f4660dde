"""ksqlDB's paths: from requests to the service, from its answers to JSON.

Invariant: a page of a browser that the server did not send cannot change anything: requests that bring an
``Origin`` are refused, as ksqlDB's clients send bodies under types that browsers may send anywhere.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import moldau
from moldau.client import KafkaError
from moldau.sql.errors import SqlError
from moldau.sql.parser import parse_statement, split
from moldau.sql.running.session import DEFAULTS, Flow
from moldau.sql.server import query_answers
from moldau.sql.server.inserts import inserted
from moldau.sql.server.problems import (
    BAD_REQUEST,
    BAD_STATEMENT,
    NOT_FOUND,
    PROBLEM_SCHEMA,
    SERVER_ERROR,
    StatementProblem,
    problem_style,
)
from moldau.sql.server.query_answers import Answer
from moldau.sql.server.service import SqlService, properties_of
from moldau.sql.statements import PrintTopic, Query
from moldau.web.application import Application, Service
from moldau.web.authentication import Authenticate, anybody
from moldau.web.call import Asked, Call
from moldau.web.limits import Limits
from moldau.web.openapi import Description
from moldau.web.problems import Problem
from moldau.web.routes import Route, RouteTable, Streamed

KSQL_JSON = "application/vnd.ksql.v1+json"
DELIMITED = "application/vnd.ksqlapi.delimited.v1"
_BODIES = (KSQL_JSON, "application/json", DELIMITED, "application/x-www-form-urlencoded")


class SqlCall(Call):
    def __init__(self, service: SqlService, asked: Asked) -> None:
        super().__init__(asked)
        if self.header("origin") is not None:
            raise Problem(40300, 403, "Pages of a browser may not use this server")
        self.service = service

    async def text_of(self, *names: str) -> tuple[str, dict[str, Any]]:
        """The statements of a body, under the first of these names that it has."""
        body = await self.body()
        text = next((body[name] for name in names if isinstance(body.get(name), str)), None)
        if text is None:
            raise Problem(BAD_REQUEST, 400, f"The request needs a text '{names[0]}'")
        return text, body


async def _ksql(call: SqlCall) -> Any:
    text, body = await call.text_of("ksql", "sql")
    after = body.get("commandSequenceNumber")
    if after is not None and not isinstance(after, int):
        raise Problem(BAD_REQUEST, 400, "commandSequenceNumber is a number")
    # Who gives up waiting does not leave a statement half done: the start of a query may take long.
    work = call.service.run(text, properties_of(body.get("streamsProperties")), after)
    return await asyncio.shield(asyncio.create_task(work, name="sql-statements"))


async def _query(call: SqlCall) -> Any:
    text, body = await call.text_of("ksql", "sql")
    answer = await _answer(call.service, text, body.get("streamsProperties"))
    if isinstance(answer, Flow):
        return Streamed(query_answers.as_text(Answer("", (), answer)), "text/plain; charset=utf-8")
    return Streamed(_registered(call.service, answer, query_answers.as_rows(answer)))


async def _query_stream(call: SqlCall) -> Any:
    text, body = await call.text_of("sql", "ksql")
    answer = await _answer(call.service, text, body.get("properties") or body.get("streamsProperties"))
    if isinstance(answer, Flow):
        raise StatementProblem("PRINT is answered by /query", text, [], BAD_STATEMENT)
    forms = {DELIMITED: query_answers.as_lines, KSQL_JSON: query_answers.as_rows}
    form = forms.get(call.media_type, query_answers.as_array)
    return Streamed(_registered(call.service, answer, form(answer)))


async def _answer(service: SqlService, text: str, properties: Any) -> "Answer | Flow":
    """What a SELECT gives; of PRINT the records."""
    try:
        statements = [parse_statement(each) for each in split(text)]
        statement = statements[0] if len(statements) == 1 else None
        if not isinstance(statement, Query | PrintTopic):
            raise SqlError("One SELECT or PRINT is expected; other statements go to /ksql.")
        await service.refresh()
        if isinstance(statement, PrintTopic):
            printed = await service.session.execute(statement)
            assert isinstance(printed, Flow)
            return printed
        plan = service.session.plan(statement)
        given = {**DEFAULTS, **properties_of(properties)}
        rows = await service.session.look(statement, plan, given)
    except SqlError as error:
        raise StatementProblem(str(error), text, []) from error
    except KafkaError as error:
        message = error.message or error.code.name
        raise StatementProblem(message, text, [], SERVER_ERROR) from error
    is_push = isinstance(rows, Flow)
    kind = f"transient_{statement.source}" if is_push else "query"
    closed = asyncio.Event() if is_push else None
    return Answer(f"{kind}_{uuid.uuid4().hex[:12]}", plan.columns, rows, closed, statement.limit)


async def _registered(
    service: SqlService, answer: Answer, parts: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """A push query can be closed by its id while it runs."""
    if answer.closed is not None:
        service.pushes[answer.query_id] = answer.closed
    try:
        async for part in parts:
            yield part
    finally:
        service.pushes.pop(answer.query_id, None)


async def _close_query(call: SqlCall) -> Any:
    body = await call.body()
    closed = call.service.pushes.get(str(body.get("queryId")))
    if closed is None:
        raise Problem(BAD_REQUEST, 400, f"No query with id {body.get('queryId')}")
    closed.set()
    return {}


async def _inserts_stream(call: SqlCall) -> Any:
    return Streamed(inserted(call.service, call.body_parts(), call.limits), DELIMITED, reads_body=True)


async def _info(call: SqlCall) -> Any:
    service = call.service
    info = {
        "version": moldau.__version__,
        "kafkaClusterId": service.cluster.cluster_id,
        "ksqlServiceId": service.service_id,
        "serverStatus": "RUNNING",
    }
    return {"KsqlServerInfo": info}


async def _health(call: SqlCall) -> Any:
    try:
        await call.service.refresh()
        healthy = True
    except (KafkaError, OSError):
        healthy = False
    parts = ("metastore", "kafka", "commandRunner")
    return {"isHealthy": healthy, "details": {each: {"isHealthy": healthy} for each in parts}}


async def _statuses(call: SqlCall) -> Any:
    found = call.service.statuses.items()
    return {"commandStatuses": {command: status["status"] for command, status in found}}


async def _status(call: SqlCall) -> Any:
    kind, name, action = (call.parameters[part] for part in ("type", "entity", "action"))
    for written in (name, f"`{name}`"):
        found = call.service.statuses.get(f"{kind}/{written}/{action}")
        if found is not None:
            return found
    raise Problem(NOT_FOUND, 404, "Command not found")


async def _cluster_status(call: SqlCall) -> Any:
    now = call.service.clock.now_ms()
    states = await call.service.session.query_states()
    host = {
        "hostAlive": True,
        "lastStatusUpdateMs": now,
        "activeStandbyPerQuery": {
            query_id: {
                "activeStores": [],
                "activePartitions": [],
                "standByStores": [],
                "standByPartitions": [],
            }
            for query_id, state in states.items()
            if state == "RUNNING"
        },
        "hostStoreLags": {"stateStoreLags": {}, "updateTimeMs": now},
    }
    return {"clusterStatus": {call.request.url.netloc: host}}


_ROWS = (KSQL_JSON, "application/json")
ROUTES = RouteTable(
    [
        Route("POST", "/ksql", _ksql, "Run statements", body="Statements", answer="Entities"),
        Route("POST", "/query", _query, "Rows of a SELECT, or PRINT", body="Statements", media_types=_ROWS),
        Route(
            "POST",
            "/query-stream",
            _query_stream,
            "Rows of a SELECT",
            body="Query",
            media_types=(DELIMITED, "application/json", KSQL_JSON),
        ),
        Route("POST", "/close-query", _close_query, "End a push query", body="CloseQuery"),
        Route(
            "POST",
            "/inserts-stream",
            _inserts_stream,
            "Insert rows, a line each",
            body="Insert",
            media_types=(DELIMITED, "application/json"),
        ),
        Route("GET", "/info", _info, "What this server is"),
        Route("GET", "/healthcheck", _health, "Whether it is well"),
        Route("GET", "/status", _statuses, "How statements went"),
        Route("GET", "/status/{type}/{entity}/{action}", _status, "How a statement went"),
        Route("GET", "/clusterStatus", _cluster_status, "The servers and their queries"),
    ]
)
_PROPERTIES = {"type": "object", "additionalProperties": {"type": "string"}}
SCHEMAS: dict[str, Any] = {
    "Statements": {
        "type": "object",
        "required": ["ksql"],
        "properties": {
            "ksql": {"type": "string"},
            "streamsProperties": _PROPERTIES,
            "commandSequenceNumber": {"type": ["integer", "null"]},
        },
    },
    "Query": {
        "type": "object",
        "required": ["sql"],
        "properties": {"sql": {"type": "string"}, "properties": _PROPERTIES},
    },
    "CloseQuery": {
        "type": "object",
        "required": ["queryId"],
        "properties": {"queryId": {"type": "string"}},
    },
    "Insert": {
        "type": "object",
        "required": ["target"],
        "properties": {"target": {"type": "string"}},
    },
    "Entities": {"type": "array", "items": {"type": "object"}},
}
SERVICE = Service(
    Description("Moldau SQL", moldau.__version__, KSQL_JSON, schemas=SCHEMAS, problem_schema=PROBLEM_SCHEMA),
    ROUTES,
    (KSQL_JSON, "application/json"),
    _BODIES,
    problem_style,
)


def application(
    service: SqlService, *, authenticate: Authenticate = anybody, limits: Limits | None = None
) -> Application:
    return Application(SERVICE, partial(SqlCall, service), authenticate=authenticate, limits=limits)
