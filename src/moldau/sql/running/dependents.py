"""What the statements that last need of each other: what may be dropped or replaced, and what may not.

Invariant: pure; after a change that is let through all statements still make sense together, so that whoever
reads the statement log can plan them.
"""

from collections.abc import Sequence
from typing import Any

from moldau.sql.catalogue import Catalogue, Source
from moldau.sql.errors import SqlError
from moldau.sql.parser import parse_statement
from moldau.sql.planner import plan_insert
from moldau.sql.program import catalogue_of
from moldau.sql.running.statement_log import Kept
from moldau.sql.statements import CreateAs, InsertSelect


def readers(kept: Sequence[Kept], name: str) -> list[Kept]:
    """Statements whose queries read a stream or a table."""
    return [each for each in kept if _reads(each, name)]


def _reads(kept: Kept, name: str) -> bool:
    statement = parse_statement(kept.text)
    if not isinstance(statement, CreateAs | InsertSelect):
        return False
    query = statement.query
    return name in (query.source, *(join.source for join in query.joins))


def result_of(kept: Kept) -> str:
    """The stream or table that a statement's query writes."""
    statement = parse_statement(kept.text)
    return statement.name if isinstance(statement, InsertSelect) else kept.name


def writers(kept: Sequence[Kept], name: str) -> list[Kept]:
    """Queries that write a stream or a table."""
    return [each for each in kept if each.query_id is not None and result_of(each) == name]


def _named(kept: Sequence[Kept]) -> str:
    return ", ".join(each.query_id or each.name for each in kept)


def check_unused(kept: Sequence[Kept], name: str) -> None:
    """Before a DROP."""
    users = [each for each in readers(kept, name) if each.name != name]
    if users:
        # What CREATE … AS SELECT has made is planned from it also when its query has ended.
        how = "TERMINATE" if all(each.name == each.query_id for each in users) else "DROP"
        raise SqlError(f"Cannot drop {name}: {_named(users)} reads it. {how} it first.")
    others = [each for each in writers(kept, name) if each.name != name]
    if others:
        raise SqlError(f"Cannot drop {name}: {_named(others)} writes into it. TERMINATE it first.")


def check_source(kept: Sequence[Kept], known: Source, source: Source) -> None:
    """Before a CREATE OR REPLACE with columns: a query's result is its query's, and readers keep columns."""
    if known.kind != source.kind:
        raise SqlError(f"{source.name} is a {known.kind.lower()}: DROP it first.")
    query_id = next((each.query_id for each in kept if each.name == source.name), None)
    if query_id is not None:
        raise SqlError(
            f"{query_id} writes {source.name}: use CREATE OR REPLACE {source.kind} {source.name} AS SELECT …,"
            f" or TERMINATE {query_id} first."
        )
    later = {each.name: each for each in source.columns}
    changed = [each.name for each in known.columns if later.get(each.name) != each]
    users = readers(kept, source.name)
    if users and changed:
        raise SqlError(
            f"{_named(users)} reads {source.name}: columns may be added to it, but"
            f" {', '.join(changed)} would be gone or another one."
        )


def check_together(kept: Sequence[Kept], name: str, text: str, registry: Any) -> Catalogue:
    """What all statements give with another text for this one."""
    try:
        catalogue = catalogue_of([text if each.name == name else each.text for each in kept], registry)
        for each in kept:
            statement = parse_statement(each.text)
            if isinstance(statement, InsertSelect):
                plan_insert(statement, catalogue, registry)
    except SqlError as error:
        raise SqlError(f"{name} cannot be replaced so, as others read it: {error}") from error
    return catalogue
