"""Statements from a program or a notebook, without asyncio.

    from moldau.sql.running.blocking import sql

    sql("SELECT page, COUNT(*) AS n FROM clicks GROUP BY page", "localhost:9092")

Invariant: it opens what it needs and closes it before it returns.
"""

import asyncio
from typing import Any

from moldau.client import Cluster
from moldau.sql.errors import SqlError
from moldau.sql.running.query_processes import QueryProcesses
from moldau.sql.running.session import Flow, Message, Session


def sql(
    text: str, bootstrap_servers: str = "127.0.0.1:9092", *, registry: str | None = None
) -> list[dict[str, Any]]:
    """Carries out all statements; gives the rows of the last one. EMIT CHANGES needs a LIMIT here."""

    async def work() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        runner = QueryProcesses(bootstrap_servers)
        async with (
            await Cluster.open(bootstrap_servers) as cluster,
            Session(cluster, registry=registry, runner=runner) as session,
        ):
            async for result in session.run(text):
                if isinstance(result, Message):
                    found = [{"message": result.text}]
                    continue
                if isinstance(result, Flow):
                    if "LIMIT" not in text.upper():
                        raise SqlError("Rows that come without an end need a LIMIT here.")
                    rows = [each async for each in result.rows if each is not None]
                else:
                    rows = list(result.rows)
                found = [dict(zip(result.columns, row, strict=True)) for row in rows]
        return found

    return asyncio.run(work())
