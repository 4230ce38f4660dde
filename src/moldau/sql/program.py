"""A query that is kept as a program of ``moldau streams``: a file whose topology is built from statements.

Invariant: the file has everything that the query needs, so that it runs wherever Spark does.
"""

from collections.abc import Sequence
from typing import Any

from moldau.sql.catalogue import Catalogue, source_of
from moldau.sql.errors import SqlError
from moldau.sql.parser import parse_statement
from moldau.sql.planner import plan_create, plan_insert
from moldau.sql.statements import CreateAs, CreateSource, InsertSelect
from moldau.sql.user_functions import load_functions
from moldau.streams import Topology

_FILE = """# Written by moldau sql: the query {query_id!a}.

from moldau.sql.program import topology_of

STATEMENTS = {statements!r}
FUNCTIONS = {functions!r}
topology = topology_of(STATEMENTS, registry={registry!r}, functions=FUNCTIONS)
"""


def file_of(
    query_id: str, statements: Sequence[str], registry: str | None, functions: Sequence[str] = ()
) -> str:
    """The text of the file; the last statement is the query, those before it make what it names.

    Names and texts come from whoever writes statements: they stand in it as literals and nothing else.
    """
    return _FILE.format(
        query_id=query_id, statements=list(statements), registry=registry, functions=list(functions)
    )


def topology_of(statements: Sequence[str], registry: Any = None, functions: Sequence[str] = ()) -> Topology:
    """What the last of the statements runs; ``functions`` are modules of users' functions."""
    load_functions(functions)
    catalogue = catalogue_of(statements[:-1], registry)
    query = parse_statement(statements[-1])
    if isinstance(query, CreateAs):
        return plan_create(query, catalogue, registry)[0].topology
    if isinstance(query, InsertSelect):
        return plan_insert(query, catalogue, registry).topology
    raise SqlError("The last statement of a program is CREATE … AS SELECT or INSERT INTO … SELECT.")


def catalogue_of(statements: Sequence[str], registry: Any = None) -> Catalogue:
    """The catalogue after these statements."""
    catalogue = Catalogue()
    for text in statements:
        try:
            catalogue = _following(catalogue, text, registry)
        except SqlError as error:
            raise SqlError(f"{error} That is in: {' '.join(text.split())[:200]}") from error
    return catalogue


def _following(catalogue: Catalogue, text: str, registry: Any) -> Catalogue:
    statement = parse_statement(text)
    if isinstance(statement, CreateSource):
        return catalogue.add(source_of(statement), or_replace=True)
    if isinstance(statement, CreateAs):
        return catalogue.add(plan_create(statement, catalogue, registry)[1], or_replace=True)
    return catalogue
