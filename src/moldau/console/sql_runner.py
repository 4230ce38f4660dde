"""Statements of SQL from the console: run in a thread with connections of their own, as the same user.

Invariant: only what ends by itself: batch SELECT, SHOW, DESCRIBE, EXPLAIN, and CREATE STREAM or TABLE over a
topic that is there. A topic of which something is masked is not there for SQL. Time and rows have bounds, and
the console answers others meanwhile.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from moldau.client.transport.cluster import Cluster
from moldau.console.masks import Masks
from moldau.console.workspace import Workspace
from moldau.sql.errors import SqlError
from moldau.sql.parser import parse_statement, split
from moldau.sql.running.session import Message, Session, Table
from moldau.sql.statements import CreateSource, Describe, Explain, Query, Show, Statement

MAX_ROWS = 500
_SECONDS = 30.0
_MAX_STATEMENTS = 20
_MAX_TEXT = 20_000


@dataclass(frozen=True, slots=True)
class Shown:
    """What one statement gave: a sentence, or rows; ``left_out`` rows are not here."""

    message: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    left_out: int = 0


def parsed(text: str) -> list[Statement]:
    """The statements of a text; SqlError for one that the console does not run."""
    if len(text) > _MAX_TEXT:
        raise SqlError("That is too long for this box: 'moldau sql FILE' runs it.")
    if "REGEXP_" in text.upper():
        # Nothing can end one that goes on for ever, and nobody would be answered meanwhile.
        raise SqlError("Regular expressions may take for ever: LIKE does not, and 'moldau sql' runs both.")
    statements = [parse_statement(each) for each in split(text)]
    if not statements:
        raise SqlError("Type a statement, such as SHOW STREAMS;")
    if len(statements) > _MAX_STATEMENTS:
        raise SqlError(f"At most {_MAX_STATEMENTS} statements at once: 'moldau sql FILE' runs more.")
    for each in statements:
        if isinstance(each, Query) and each.emit is not None:
            raise SqlError("EMIT goes on for ever: leave it out here, or use 'moldau sql'.")
        if not isinstance(each, Query | Show | Describe | Explain | CreateSource):
            raise SqlError(
                "This box reads, and says what is in a topic (CREATE STREAM or TABLE): "
                "'moldau sql' does everything else."
            )
    return statements


def changes_something(statements: list[Statement]) -> bool:
    return any(isinstance(each, CreateSource) for each in statements)


def run_statements(workspace: Workspace, masks: Masks, statements: list[Statement]) -> list[Shown]:
    """Blocks: to be called in a thread. SqlError and KafkaError say what is wrong."""
    return asyncio.run(_run(workspace, masks, statements))


async def _run(workspace: Workspace, masks: Masks, statements: list[Statement]) -> list[Shown]:
    try:
        async with asyncio.timeout(_SECONDS), await workspace.own_cluster() as cluster:
            return await _results(workspace, cluster, masks, statements)
    except TimeoutError:
        raise SqlError(
            f"It takes longer than {_SECONDS:.0f} seconds: read a smaller topic, or use 'moldau sql'."
        ) from None


async def _results(
    workspace: Workspace, cluster: Cluster, masks: Masks, statements: list[Statement]
) -> list[Shown]:
    found = []
    async with Session(cluster, registry=workspace.settings.schema_registry) as session:
        for statement in statements:
            hidden = {
                name
                for name, each in session.catalogue.sources.items()
                if masks.of(each.topic).hides_anything
            }
            kept = {name: each for name, each in session.catalogue.sources.items() if name not in hidden}
            session.catalogue = replace(session.catalogue, sources=kept)
            if isinstance(statement, CreateSource):
                _check_topic(statement, masks)
            result = await session.execute(statement)
            match result:
                case Message(text):
                    found.append(Shown(text))
                case Table(columns, rows):
                    shown = tuple(tuple(_text(cell) for cell in row) for row in rows[:MAX_ROWS])
                    found.append(Shown("", columns, shown, max(0, len(rows) - MAX_ROWS)))
                case _:
                    raise SqlError("That goes on for ever: 'moldau sql' shows it.")
    return found


def _check_topic(statement: CreateSource, masks: Masks) -> None:
    from moldau.sql.catalogue import source_of

    topic = source_of(statement).topic
    if masks.of(topic).hides_anything:
        raise SqlError(f"Something of {topic} is masked in this console: SQL does not read it.")


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell)[:2000]
