"""The state of a server: one session that follows the statement log, push queries, queries that must run.

Invariant: statements of all requests are carried out one after the other; what they made is in the statement
log before the answer. A query that is kept and is not paused is started again when its process is gone.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.base.clock import Clock, SystemClock
from moldau.client import Admin, Cluster, KafkaError
from moldau.sql.errors import SqlError
from moldau.sql.parser import parse_statement, split
from moldau.sql.planner import plan_create, plan_insert
from moldau.sql.running.dependents import writers
from moldau.sql.running.query_processes import QueryRunner
from moldau.sql.running.session import DEFAULTS, Message, Session, Table
from moldau.sql.running.statement_log import Kept
from moldau.sql.server import entities
from moldau.sql.server.problems import NOT_YET, QUERY_ENDPOINT, StatementProblem
from moldau.sql.statements import (
    Control,
    CreateAs,
    CreateSource,
    Describe,
    Drop,
    Explain,
    InsertSelect,
    InsertValues,
    PrintTopic,
    Query,
    SetProperty,
    Show,
    Statement,
)
from moldau.web.problems import Problem

log = logging.getLogger("moldau.sql.server")

#: ksqlDB's clients write properties of Kafka Streams with this before them.
_PREFIX = "ksql.streams."
_MOST_STATUSES = 1_000
#: How long a query that does not start is left alone, at first and at most.
_FIRST_PAUSE_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 300.0


@dataclass(slots=True)
class _Pause:
    seconds: float = _FIRST_PAUSE_SECONDS
    until: float = 0.0


@dataclass(slots=True)
class SqlService:
    cluster: Cluster
    registry: str | None = None
    runner: QueryRunner | None = None
    service_id: str = "default_"
    #: Modules whose functions statements may call.
    functions: tuple[str, ...] = ()
    clock: Clock = field(default_factory=SystemClock)
    #: Push queries by their ids; to set one's event ends it.
    pushes: dict[str, asyncio.Event] = field(default_factory=dict)
    statuses: OrderedDict[str, entities.Json] = field(default_factory=OrderedDict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _session: Session | None = None
    _pauses: dict[str, _Pause] = field(default_factory=dict)

    async def open(self) -> None:
        session = Session(self.cluster, registry=self.registry, runner=self.runner, functions=self.functions)
        self._session = await session.__aenter__()

    @property
    def session(self) -> Session:
        assert self._session is not None, "the service is not open"
        return self._session

    async def refresh(self) -> None:
        """Takes over what other servers and shells have made; not amid a statement, which does so itself."""
        if not self._lock.locked():
            async with self._lock:
                await self.session.refresh()

    # --- statements -----------------------------------------------------------------------------------

    async def run(
        self, text: str, properties: Mapping[str, str], after: int | None = None
    ) -> list[entities.Json]:
        """The answers to all statements of a text; the first that fails ends it."""
        async with self._lock:
            await self.session.refresh()
            if after is not None and after > self.session.sequence_number:
                raise Problem(NOT_YET, 503, f"Statement {after} is not in the log that this server sees")
            self.session.properties = {**DEFAULTS, **properties}
            found: list[entities.Json] = []
            try:
                texts = split(text)
                if not texts:
                    raise SqlError("There is no statement.")
                for each in texts:
                    found += await self._answers(each, parse_statement(each))
            except SqlError as error:
                raise StatementProblem(str(error), text, found) from error
            except KafkaError as error:
                raise StatementProblem(error.message or error.code.name, text, found, 50000) from error
            return found

    async def _answers(self, text: str, statement: Statement) -> list[entities.Json]:
        """No, one or several entities, as ksqlDB has them for each kind of statement."""
        match statement:
            case Query() | PrintTopic():
                said = "SELECT and PRINT queries must use the /query or /query-stream endpoints"
                raise StatementProblem(said, text, [], QUERY_ENDPOINT)
            case Show():
                return [await self._show(text, statement)]
            case Describe():
                return [await self._describe(text, statement)]
            case Explain(replacing=None):
                return [await self._explain(text, statement)]
            case _:
                result = await self.session.execute(statement)
                assert isinstance(result, Message)
                return self._changed(text, statement, result.text)

    def _changed(self, text: str, statement: Statement, message: str) -> list[entities.Json]:
        match statement:
            case SetProperty() | InsertValues():
                return []
            case CreateSource() | CreateAs():
                command = f"{statement.kind.lower()}/`{statement.name}`/create"
            case Drop():
                command = f"{statement.kind.lower()}/`{statement.name}`/drop"
            case InsertSelect():
                command = f"stream/`{statement.name}`/create"
            case Explain():  # of a CREATE OR REPLACE: what it would do
                return [entities.entity("warning_entity", text, message=message)]
            case Control("TERMINATE", query_id):
                command = f"terminate/{query_id or 'ALL'}/execute"
            case Control(action, query_id):
                return [
                    entities.entity(
                        f"{action.lower()}_query", text, queryId=query_id or "ALL", message=message
                    )
                ]
            case _:
                raise AssertionError(statement)
        kept = self.session.kept()
        query_id = next((str(each.query_id) for each in kept if f"ID {each.query_id}" in message), None)
        number = self.session.sequence_number
        found = entities.command_status(text, command, message, number, query_id)
        self.statuses[command] = found["commandStatus"]
        self.statuses.move_to_end(command)
        while len(self.statuses) > _MOST_STATUSES:
            self.statuses.popitem(last=False)
        return [found]

    async def _show(self, text: str, statement: Show) -> entities.Json:
        session = self.session
        if statement.what in ("STREAMS", "TABLES"):
            return entities.source_list(text, statement.what[:-1], session.catalogue.sources.values())
        if statement.what == "QUERIES":
            return entities.entity("queries", text, queries=await self._queries(session.kept()))
        if statement.what == "PROPERTIES":
            return entities.property_list(text, session.properties, DEFAULTS)
        table = await session.execute(statement)
        assert isinstance(table, Table)
        make = entities.topic_list if statement.what == "TOPICS" else entities.function_list
        return make(text, table.rows)

    async def _queries(self, kept: list[Kept]) -> list[entities.Json]:
        states = await self.session.query_states()
        return [
            entities.query_of(each, states[each.query_id], self.session.sink(each))
            for each in kept
            if each.query_id is not None
        ]

    async def _describe(self, text: str, statement: Describe) -> entities.Json:
        session = self.session
        source = session.catalogue.find(statement.name)
        readers = session.readers(source.name)
        writing = writers(session.kept(), source.name)
        described = (await Admin(self.cluster).describe_topics([source.topic]))[source.topic]
        partitions = () if isinstance(described, KafkaError) else described.partitions
        return entities.source_description(
            text,
            source,
            read_by=await self._queries(readers),
            written_by=await self._queries(writing),
            extended=statement.extended,
            partitions=len(partitions),
            replication=len(partitions[0].replicas) if partitions else 0,
        )

    async def _explain(self, text: str, statement: Explain) -> entities.Json:
        session = self.session
        if statement.query is not None:
            query, plan = statement.query, session.plan(statement.query)
            known, sinks, state = None, [], "RUNNING"
        else:
            known = next((each for each in session.kept() if each.query_id == statement.query_id), None)
            if known is None:
                raise SqlError(f"There is no query {statement.query_id}; SHOW QUERIES lists them.")
            made = parse_statement(known.text)
            assert isinstance(made, CreateAs | InsertSelect)
            query, sinks = made.query, [made.name]
            if isinstance(made, CreateAs):
                plan = plan_create(made, session.catalogue, self.registry)[0]
            else:
                plan = plan_insert(made, session.catalogue, self.registry)
            state = (await session.query_states())[str(known.query_id)]
        return entities.query_description(
            text,
            plan,
            query_id=str(known.query_id) if known else "",
            statement=known.text if known else query.text,
            sources=[query.source, *(join.source for join in query.joins)],
            sinks=sinks,
            state=state,
        )

    # --- queries that must run --------------------------------------------------------------------------

    async def keep_running(self, every_seconds: float) -> None:
        """Starts what should run and does not, for ever; pauses longer and longer while that fails."""
        while True:
            await self.start_missing()
            await asyncio.sleep(every_seconds)

    async def start_missing(self) -> None:
        if self.runner is None:
            return
        async with self._lock:
            try:
                await self.session.refresh()
                missing = await self.session.missing_queries()
            except (KafkaError, OSError) as error:
                log.warning("queries cannot be looked at: %s", error)
                return
            for each in missing:
                await self._start(each)

    async def _start(self, kept: Kept) -> None:
        query_id = str(kept.query_id)
        pause = self._pauses.setdefault(query_id, _Pause())
        if self.clock.monotonic() < pause.until:
            return
        try:
            await self.session.start_query(kept)
        except (SqlError, OSError) as error:
            log.warning("query %s does not start, next try in %g s: %s", query_id, pause.seconds, error)
        else:
            log.info("query %s was started", query_id)
        # One that starts and ends again at once is not started without a pause either.
        pause.until = self.clock.monotonic() + pause.seconds
        pause.seconds = min(pause.seconds * 2, _LONGEST_PAUSE_SECONDS)


def properties_of(given: Any) -> dict[str, str]:
    """Properties of a request by the names that sessions know; others have no meaning here."""
    if not isinstance(given, dict):
        return {}
    plain = {str(name).removeprefix(_PREFIX): str(value) for name, value in given.items()}
    return {name: value for name, value in plain.items() if name in DEFAULTS}
