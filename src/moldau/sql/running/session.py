"""Carries statements out on a cluster: the catalogue, topics, looks at rows, and queries that go on running.

Invariant: a statement that fails changes nothing; what it made lasts in the statement log before the answer.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from moldau.client import Admin, Cluster, KafkaError, NewTopic
from moldau.sql.aggregates import AGGREGATES
from moldau.sql.catalogue import Catalogue, Source, source_of
from moldau.sql.errors import SqlError
from moldau.sql.exploding import HELP as EXPLODE_HELP
from moldau.sql.formats import key_serde, value_serde
from moldau.sql.functions import FUNCTIONS
from moldau.sql.lambdas import HELP as LAMBDA_HELP
from moldau.sql.parser import parse_statement, split
from moldau.sql.planner import Plan, plan_create, plan_insert, plan_query
from moldau.sql.program import catalogue_of, file_of
from moldau.sql.running.dependents import (
    check_source,
    check_together,
    check_unused,
    readers,
    result_of,
    writers,
)
from moldau.sql.running.inserting import encoded_rows, rows_of, send_rows
from moldau.sql.running.leftovers import clear_away, forget_schema
from moldau.sql.running.looking import SqlRow, last_records, what_comes, what_is_there
from moldau.sql.running.query_processes import QueryRunner
from moldau.sql.running.statement_log import Kept, StatementLog
from moldau.sql.running.upgrades import dry_run, upgrade_of
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
from moldau.sql.types import to_json
from moldau.sql.user_functions import load_functions
from moldau.streams.topology.pictures import text_picture

#: A name in quotes may have any character; the id that is made of it is the name of a file and of a process.
_NOT_IN_AN_ID = re.compile(r"[^A-Za-z0-9_]")
_RESET = "auto.offset.reset"
DEFAULTS = {_RESET: "latest"}
#: How many records of each partition a dry run takes.
_DRY_RUN_RECORDS = 10_000


@dataclass(frozen=True, slots=True)
class Message:
    """One sentence about what was done."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows that are all there."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Flow:
    """Rows that come; None now and then while none does."""

    columns: tuple[str, ...]
    rows: AsyncIterator[tuple[Any, ...] | None]


Result = Message | Table | Flow


class Session:
    """One person's statements: ``async with Session(cluster) as session``."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        registry: str | None = None,
        runner: QueryRunner | None = None,
        functions: Sequence[str] = (),
    ) -> None:
        """``functions`` are modules whose functions statements may call."""
        self._cluster = cluster
        self._registry = registry
        self._runner = runner
        self._functions = tuple(functions)
        self._log = StatementLog(cluster)
        self._kept: dict[str, Kept] = {}
        self.catalogue = Catalogue()
        self.properties = dict(DEFAULTS)
        #: Told how many records a SELECT has read, and of how many, while it reads.
        self.on_read: Callable[[int, int], None] = lambda read, total: None

    async def __aenter__(self) -> "Session":
        load_functions(self._functions)
        await self._load()
        return self

    async def _load(self) -> None:
        self._kept = {each.name: each for each in await self._log.load()}
        self.catalogue = catalogue_of([each.text for each in self.kept()], self._registry)

    async def refresh(self) -> None:
        """Takes over what others have written to the statement log since."""
        if await self._log.has_more():
            await self._load()

    @property
    def sequence_number(self) -> int:
        """The place of the last statement in the log; -1 where there is none."""
        return self._log.end - 1

    async def __aexit__(self, *_: object) -> None:
        return

    async def run(self, text: str) -> AsyncIterator[Result]:
        """The results of all statements of a text, one after the other."""
        for each in split(text):
            yield await self.execute(parse_statement(each))

    async def execute(self, statement: Statement) -> Result:
        match statement:
            case Query():
                return await self._query(statement)
            case CreateSource():
                return await self._create(statement)
            case CreateAs():
                return await self._create_as(statement)
            case InsertSelect():
                return await self._insert_select(statement)
            case InsertValues():
                return await self._insert(statement)
            case Drop():
                return await self._drop(statement)
            case Show():
                return await self._show(statement)
            case Describe():
                return self._describe(statement)
            case Explain(replacing=CreateAs() as replacing) if replacing.name in self.catalogue.sources:
                return await self._explain_replacing(replacing)
            case Explain():
                return self._explain(statement)
            case Control():
                return await self._control(statement)
            case SetProperty():
                return self._set(statement)
            case PrintTopic():
                return self._print(statement)

    # --- rows -------------------------------------------------------------------------------------

    def plan(self, query: Query) -> Plan:
        return plan_query(query, self.catalogue, self._registry)

    async def _query(self, query: Query) -> Result:
        return await self.look(query, self.plan(query), self.properties)

    async def look(self, query: Query, plan: Plan, properties: Mapping[str, str]) -> Table | Flow:
        """The rows of a SELECT that was planned."""
        names = tuple(each.name for each in plan.columns)
        if query.emit is None:
            rows = await what_is_there(self._cluster, plan, query.as_of_ms, self.on_read)
            return Table(names, await asyncio.to_thread(_table, rows[: query.limit], names))
        if query.as_of_ms is not None:
            raise SqlError("AS OF looks at what was there; it does not go with EMIT.")
        from_beginning = properties.get(_RESET, DEFAULTS[_RESET]) == "earliest"
        return Flow(names, self._flow(plan, names, query.limit, from_beginning))

    async def _flow(
        self, plan: Plan, names: tuple[str, ...], limit: int | None, from_beginning: bool
    ) -> AsyncIterator[tuple[Any, ...] | None]:
        count = 0
        if limit == 0:
            return
        async for row in what_comes(self._cluster, plan, from_beginning=from_beginning):
            if row is None:
                yield None
                continue
            yield _cells(row, names)
            count += 1
            if count == limit:
                return

    async def _insert(self, statement: InsertValues) -> Result:
        source = self.catalogue.find(statement.name)
        return await self.insert(source.name, await asyncio.to_thread(rows_of, statement, source))

    async def insert(self, name: str, rows: Sequence[Mapping[str, Any]]) -> Message:
        """Writes rows, each by the names of its columns."""
        source = self.catalogue.find(name)
        encoded = encoded_rows(source, rows, self._registry)
        await send_rows(self._cluster, source, encoded)
        return Message(f"{len(rows)} {'row' if len(rows) == 1 else 'rows'} written to {source.topic}")

    def _print(self, statement: PrintTopic) -> Result:
        return Flow(("OFFSET", "TIME", "KEY", "VALUE"), self._raw(statement))

    async def _raw(self, statement: PrintTopic) -> AsyncIterator[tuple[Any, ...] | None]:
        from moldau.client import BEGINNING, END, Consumer, TopicPartition

        topic = await self._cluster.topic(statement.topic)
        places = [TopicPartition(statement.topic, each.index) for each in topic.partitions]
        start = BEGINNING if statement.from_beginning else END
        count = 0
        async with Consumer(self._cluster) as consumer:
            await consumer.assign(dict.fromkeys(places, start))
            while statement.limit is None or count < statement.limit:
                batch = await consumer.next_batch(timeout_ms=500)
                if batch is None:
                    yield None
                    continue
                for record in batch.consumer_records():
                    place = f"{record.partition}:{record.offset}"
                    yield place, record.timestamp, _text(record.key), _text(record.value)
                    count += 1
                    if count == statement.limit:
                        return

    # --- sources ------------------------------------------------------------------------------------

    async def _create(self, statement: CreateSource) -> Result:
        if statement.if_not_exists and statement.name in self.catalogue.sources:
            return Message(f"{statement.name} exists already")
        source = source_of(statement)
        following = self.catalogue.add(source, or_replace=statement.or_replace)
        if statement.name in self.catalogue.sources:
            check_source(self.kept(), self.catalogue.sources[source.name], source)
            following = check_together(self.kept(), source.name, statement.text, self._registry)
        # What the formats cannot hold is said now and not at the first row.
        key_serde(source.key_format, source.key_columns, self._registry)
        value_serde(source.value_format, source.value_columns, self._registry, source.name)
        await self._make_topic(source, must_exist=source.partitions is None)
        await self._keep(statement.name, statement.text)
        self.catalogue = following
        return Message(f"{source.kind.capitalize()} {source.name} created")

    async def _make_topic(self, source: Source, *, must_exist: bool, partitions: int | None = None) -> None:
        admin = Admin(self._cluster)
        if source.topic in await admin.list_topics():
            return
        if must_exist:
            raise SqlError(
                f"Topic '{source.topic}' does not exist. To make it, add PARTITIONS = 1 (or more) to WITH."
            )
        topic = NewTopic(
            source.topic,
            num_partitions=source.partitions or partitions or 1,
            replication_factor=source.replicas or -1,
            configs=_topic_configs(source),
        )
        outcome = (await admin.create_topics([topic]))[source.topic]
        if isinstance(outcome, KafkaError):
            raise SqlError(f"Topic {source.topic} could not be made: {outcome}")

    async def _drop(self, statement: Drop) -> Result:
        known = self.catalogue.sources.get(statement.name)
        following = self.catalogue.drop(statement)
        if known is None:
            return Message(f"{statement.name} does not exist")
        check_unused(self.kept(), known.name)
        said = []
        if known.name in self._kept and self._kept[known.name].query_id is not None:
            said.append(await self._end(self._kept[known.name]))
        await self._log.remove(known.name)
        self._kept.pop(known.name, None)
        self.catalogue = following
        if statement.delete_topic:
            await Admin(self._cluster).delete_topics([known.topic])
            said.append(await asyncio.to_thread(forget_schema, self._registry, known))
        return Message("\n".join([*filter(None, said), f"{known.kind.capitalize()} {known.name} dropped"]))

    # --- queries that are kept ----------------------------------------------------------------------

    async def _create_as(self, statement: CreateAs) -> Result:
        if statement.if_not_exists and statement.name in self.catalogue.sources:
            return Message(f"{statement.name} exists already")
        if statement.or_replace and statement.name in self.catalogue.sources:
            return await self._replace_query(statement)
        plan, source = plan_create(statement, self.catalogue, self._registry)
        following = self.catalogue.add(source)
        first = await self._cluster.topic(plan.topics[0])
        await self._make_topic(source, must_exist=False, partitions=len(first.partitions))
        prefix = "CTAS" if statement.kind == "TABLE" else "CSAS"
        return await self._start(statement.name, statement.text, prefix, following)

    async def _replace_query(self, statement: CreateAs) -> Result:
        """The same query goes on with another text: its id, its place and its state stay."""
        kept, old = self._replaced(statement)
        upgrade = upgrade_of(old, statement, self.catalogue, self._registry)
        if upgrade.problems:
            raise SqlError(
                f"{statement.name} cannot be replaced in place: {'; '.join(upgrade.problems)}. "
                f"DROP it first, or create the new query under another name beside it."
            )
        if not upgrade.changes:
            return Message(f"{statement.name} is as it was")
        assert kept.query_id is not None
        following = check_together(self.kept(), statement.name, statement.text, self._registry)
        runner = self._needed_runner()
        await runner.stop(kept.query_id)
        changed = replace(kept, text=statement.text)
        if kept.state == "RUNNING":
            await self.start_query(changed)
        await self._write(changed)
        self.catalogue = following
        return Message("\n".join([f"Replaced query with ID {kept.query_id}", *upgrade.changes]))

    def _replaced(self, statement: CreateAs) -> tuple[Kept, CreateAs]:
        kept = self._kept.get(statement.name)
        old = parse_statement(kept.text) if kept is not None else None
        if kept is None or kept.query_id is None or not isinstance(old, CreateAs):
            raise SqlError(f"No query writes {statement.name}: DROP it first.")
        return kept, old

    async def _explain_replacing(self, statement: CreateAs) -> Result:
        """What CREATE OR REPLACE would change, and what it would give for records that are there."""
        _, old = self._replaced(statement)
        upgrade = upgrade_of(old, statement, self.catalogue, self._registry)
        lines = [*(upgrade.changes or ("nothing changes",))]
        lines += [f"! not in place: {each}" for each in upgrade.problems]
        plans = [self.plan(each.query) for each in (old, statement)]
        topics = dict.fromkeys(topic for plan in plans for topic in plan.topics)
        records = await last_records(self._cluster, topics, _DRY_RUN_RECORDS)
        both = (old.query, statement.query)
        lines += (await asyncio.to_thread(dry_run, *both, self.catalogue, records, self._registry)).lines()
        return Message("\n".join(lines))

    async def _insert_select(self, statement: InsertSelect) -> Result:
        plan_insert(statement, self.catalogue, self._registry)
        return await self._start(statement.name, statement.text, "INSERTQUERY", self.catalogue)

    async def _start(self, name: str, text: str, prefix: str, following: Catalogue) -> Result:
        runner = self._needed_runner()
        number = self._next_number()
        query_id = f"{prefix}_{_NOT_IN_AN_ID.sub('_', name[:100])}_{number}"
        program = self._program(Kept(name, number, text, query_id))
        await runner.start(query_id, program)
        await self._keep(query_id if prefix == "INSERTQUERY" else name, text, query_id)
        self.catalogue = following
        return Message(f"Created query with ID {query_id}")

    def _program(self, kept: Kept) -> str:
        """The file of a query: what was made before it, and its own statement."""
        assert kept.query_id is not None
        earlier = [each.text for each in self._sources() if each.number < kept.number]
        return file_of(kept.query_id, [*earlier, kept.text], self._registry, self._functions)

    async def missing_queries(self) -> list[Kept]:
        """Queries that should run and do not, such as those of a machine that was restarted."""
        states = await self._needed_runner().states()
        return [
            each
            for each in self.kept()
            if each.query_id is not None
            and each.state == "RUNNING"
            and states.get(each.query_id) not in ("running", "starting")
        ]

    async def start_query(self, kept: Kept) -> None:
        assert kept.query_id is not None
        await self._needed_runner().start(kept.query_id, self._program(kept))

    async def query_states(self) -> dict[str, str]:
        """RUNNING, PAUSED or ERROR for each query that is kept."""
        found = {} if self._runner is None else await self._runner.states()
        ended = ("failed", "died", "stopped")
        return {
            each.query_id: "ERROR"
            if each.state == "RUNNING" and found.get(each.query_id) in ended
            else each.state
            for each in self.kept()
            if each.query_id is not None
        }

    async def _control(self, statement: Control) -> Result:
        wanted = [
            each
            for each in self.kept()
            if each.query_id is not None and statement.query_id in (None, each.query_id)
        ]
        if not wanted:
            what = f"There is no query {statement.query_id}" if statement.query_id else "There are no queries"
            raise SqlError(f"{what}; SHOW QUERIES lists them.")
        runner, said = self._needed_runner(), []
        for each in wanted:
            if statement.action == "TERMINATE":
                said.append(await self._end(each))
                continue
            assert each.query_id is not None
            if statement.action == "PAUSE":
                await runner.stop(each.query_id)
            else:
                await self.start_query(each)
            state = "PAUSED" if statement.action == "PAUSE" else "RUNNING"
            await self._write(replace(each, state=state))
            said.append(f"Query {each.query_id} {'paused' if state == 'PAUSED' else 'resumed'}")
        return Message("\n".join(said))

    async def _end(self, kept: Kept) -> str:
        """The query ends for good; the stream or table that it wrote stays, as one that others write."""
        assert kept.query_id is not None
        runner = self._needed_runner()
        await runner.stop(kept.query_id)
        if kept.name == kept.query_id:
            await self._log.remove(kept.name)
            self._kept.pop(kept.name, None)
        else:
            await self._write(replace(kept, query_id=None, state="TERMINATED"))
        return f"Query {kept.query_id} terminated; {await clear_away(self._cluster, runner, kept.query_id)}"

    def _needed_runner(self) -> QueryRunner:
        if self._runner is None:
            raise SqlError("Queries that are kept run on Spark: pip install 'moldau[spark]'.")
        return self._runner

    # --- what there is --------------------------------------------------------------------------------

    async def _show(self, statement: Show) -> Result:
        match statement.what:
            case "STREAMS" | "TABLES":
                kind = statement.what[:-1]
                rows = [
                    (each.name, each.topic, each.key_format, each.value_format, each.window is not None)
                    for each in self.catalogue.sources.values()
                    if each.kind == kind
                ]
                heads = (f"{kind.capitalize()} Name", "Kafka Topic", "Key Format", "Value Format", "Windowed")
                return Table(heads, tuple(sorted(rows)))
            case "TOPICS":
                admin = Admin(self._cluster)
                described = await admin.describe_topics(sorted(await admin.list_topics()))
                listed = [
                    (name, len(each.partitions), len(each.partitions[0].replicas))
                    for name, each in described.items()
                    if not isinstance(each, KafkaError) and not name.startswith("_")
                ]
                return Table(("Kafka Topic", "Partitions", "Partition Replicas"), tuple(sorted(listed)))
            case "QUERIES":
                states = await self.query_states()
                queries = [
                    (each.query_id, states[each.query_id], self.sink(each), " ".join(each.text.split()))
                    for each in self.kept()
                    if each.query_id is not None
                ]
                return Table(("Query ID", "Status", "Sink", "Query"), tuple(queries))
            case "FUNCTIONS":
                both: list[tuple[Any, ...]] = [
                    *((each.name, "SCALAR", each.help) for each in FUNCTIONS.values()),
                    *((name, "SCALAR", text) for name, text in LAMBDA_HELP.items()),
                    ("EXPLODE", "TABLE", EXPLODE_HELP),
                    *((each.name, "AGGREGATE", each.help) for each in AGGREGATES.values()),
                ]
                return Table(("Function Name", "Category", "What it gives"), tuple(sorted(both)))
        return Table(("Property", "Value"), tuple(sorted(self.properties.items())))

    def sink(self, kept: Kept) -> str:
        """The topic that a query writes."""
        name = result_of(kept)
        known = self.catalogue.sources.get(name)
        return known.topic if known is not None else name

    def _describe(self, statement: Describe) -> Result:
        source = self.catalogue.find(statement.name)
        mark = " (primary key)" if source.kind == "TABLE" else " (key)"
        rows = [(each.name, f"{each.type}{mark if each.is_key else ''}") for each in source.columns]
        if statement.extended:
            writing = [str(each.query_id) for each in writers(self.kept(), source.name)]
            reading = [each.query_id or each.name for each in self.readers(source.name)]
            rows += [
                ("— type", source.kind),
                ("— topic", source.topic),
                ("— formats", f"key {source.key_format}, value {source.value_format}"),
                ("— written by", ", ".join(writing) or "others"),
                ("— read by", ", ".join(reading) or "nobody"),
                ("— statement", " ".join(source.text.split())),
            ]
        return Table(("Field", "Type"), tuple(rows), title=source.name)

    def _explain(self, statement: Explain) -> Result:
        if statement.query is not None:
            return _drawn(plan_query(statement.query, self.catalogue, self._registry))
        kept = next((each for each in self.kept() if each.query_id == statement.query_id), None)
        if kept is None:
            raise SqlError(f"There is no query {statement.query_id}; SHOW QUERIES lists them.")
        query = parse_statement(kept.text)
        if isinstance(query, InsertSelect):
            return _drawn(plan_insert(query, self.catalogue, self._registry))
        assert isinstance(query, CreateAs)
        return _drawn(plan_create(query, self.catalogue, self._registry)[0])

    def _set(self, statement: SetProperty) -> Result:
        if statement.name not in DEFAULTS:
            raise SqlError(f"There is no property {statement.name}; there is {', '.join(DEFAULTS)}.")
        if statement.value not in (None, "earliest", "latest"):
            raise SqlError(f"{statement.name} is 'earliest' or 'latest'.")
        self.properties[statement.name] = statement.value or DEFAULTS[statement.name]
        return Message(f"{statement.name} is {self.properties[statement.name]} now")

    # --- the statement log ------------------------------------------------------------------------------

    def kept(self) -> list[Kept]:
        """All statements that last, in order."""
        return sorted(self._kept.values(), key=lambda each: each.number)

    def readers(self, name: str) -> list[Kept]:
        """Statements whose queries read a stream or a table."""
        return readers(self.kept(), name)

    def _sources(self) -> list[Kept]:
        """Statements that made a stream or a table."""
        return [each for each in self.kept() if each.name != each.query_id]

    def _next_number(self) -> int:
        """One that no statement before had, also none that is gone: a query never finds another's state."""
        return max((self._log.end, *(each.number for each in self._kept.values()))) + 1

    async def _keep(self, name: str, text: str, query_id: str | None = None) -> None:
        """What is replaced keeps its place, as those who read it come after it."""
        known = self._kept.get(name)
        await self._write(Kept(name, known.number if known else self._next_number(), text, query_id))

    async def _write(self, kept: Kept) -> None:
        await self._log.write(kept)
        self._kept[kept.name] = kept


def _drawn(plan: Plan) -> Message:
    """The picture, and Kafka's text."""
    return Message("\n".join([*text_picture(plan.topology), "", plan.topology.describe()]))


def _topic_configs(source: Source) -> dict[str, str | None]:
    found: dict[str, str | None] = (
        {"cleanup.policy": "compact"} if source.kind == "TABLE" and source.window is None else {}
    )
    if source.retention_ms is not None:
        found["retention.ms"] = str(source.retention_ms)
    return found


def _table(rows: Sequence[SqlRow], names: Sequence[str]) -> tuple[tuple[Any, ...], ...]:
    return tuple(_cells(row, names) for row in rows)


def _cells(row: SqlRow, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(to_json(row.get(name)) for name in names)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")
