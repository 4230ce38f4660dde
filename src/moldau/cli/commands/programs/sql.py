"""``moldau sql``: a shell for statements over topics, and files of them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from moldau.cli.output import echo, note, print_json_line, print_table
from moldau.cli.session import bootstrap_server, connected, connection_options, json_option, needs, run
from moldau.cli.sql_shell import ReadingBar, interruptible, only_looks, typed

if TYPE_CHECKING:
    from moldau.client.transport.cluster import Cluster
    from moldau.sql.running.session import Result, Session
    from moldau.sql.server.client import RemoteSession

registry_option = click.option(
    "-r",
    "--registry",
    "--schema-registry",
    "schema_registry",
    metavar="URL",
    envvar="MOLDAU_SCHEMA_REGISTRY_URL",
    show_envvar=True,
    help="The schema registry, for AVRO, PROTOBUF and JSON_SR.",
)
functions_option = click.option(
    "--functions",
    multiple=True,
    metavar="MODULE",
    help="A Python module whose functions statements may call; repeatable.",
)


@click.command()
@click.argument("file", type=click.File(), required=False)
@click.option("-e", "--execute", "text", metavar="STATEMENTS", help="Run these statements and end.")
@registry_option
@click.option("--home", metavar="DIR", help="Where queries that are kept have their files.")
@functions_option
@click.option(
    "--server",
    metavar="URL",
    envvar="MOLDAU_SQL_SERVER",
    show_envvar=True,
    help="Let a server run the statements: 'moldau sql-server', or ksqlDB's.",
)
@click.option("--user", metavar="NAME:PASSWORD", envvar="MOLDAU_SQL_USER", help="Who you are to the server.")
@json_option
@connection_options
def sql(
    file: Any,
    text: str | None,
    schema_registry: str | None,
    home: str | None,
    functions: tuple[str, ...],
    server: str | None,
    user: str | None,
    as_json: bool,
) -> None:
    """SQL over topics, in ksqlDB's words.

    A SELECT shows what the topics have now; with AS OF a moment, what they had then; with EMIT CHANGES, what
    comes. CREATE … AS SELECT runs on Spark until it is told to end; 'moldau streams list' shows it as well.

    \b
    Examples:
      moldau sql
      moldau sql -e "CREATE STREAM clicks (user STRING KEY, page STRING)
                     WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='JSON', PARTITIONS=3)"
      moldau sql -e "SELECT page, COUNT(*) FROM clicks GROUP BY page"
      moldau sql statements.sql -b broker1:9092
      moldau sql --server http://127.0.0.1:8088 -e "SHOW QUERIES"
    """
    with needs("the SQL shell", "sql"):
        from moldau.sql.running.query_processes import QueryProcesses
        from moldau.sql.running.session import Session
        from moldau.sql.server.client import RemoteSession

    given = _given(text, file)

    async def work(session: "Session | RemoteSession") -> None:
        if given is not None:
            await _run(session, given, as_json=as_json)
        else:
            await _shell(session, as_json=as_json)

    async def work_here(cluster: "Cluster") -> None:
        runner = QueryProcesses(bootstrap_server(), home)
        with _plain_errors():
            session = Session(cluster, registry=schema_registry, runner=runner, functions=functions)
            await session.__aenter__()
        session.on_read = ReadingBar()
        await work(session)

    if server is None:
        connected(work_here)
        return
    with _plain_errors():
        remote = RemoteSession(server, user)
    run(work(remote))


def _given(text: str | None, file: Any) -> str | None:
    """Statements that are there already; None where a person types them."""
    if text is not None or file is not None:
        return text if text is not None else str(file.read())
    return None if sys.stdin.isatty() else sys.stdin.read()


async def _shell(session: "Session | RemoteSession", *, as_json: bool) -> None:
    note("Statements end with a semicolon; 'exit' or Ctrl-D ends the shell.")
    for statements in typed(lambda: _names(session)):
        try:
            if await _agreed(session, statements):
                running = _run(session, statements, as_json=as_json)
                await interruptible(running, may_end=only_looks(statements))
        except click.ClickException as error:
            echo(f"Error: {error.message}", err=True)


def _names(session: "Session | RemoteSession") -> list[str]:
    """What a session knows by name; a server is not asked for what it knows at every key."""
    from moldau.sql.functions import FUNCTIONS
    from moldau.sql.running.session import Session

    if not isinstance(session, Session):
        return list(FUNCTIONS)
    sources = session.catalogue.sources.values()
    columns = {each.name for source in sources for each in source.columns}
    return [*FUNCTIONS, *session.catalogue.sources, *columns]


async def _agreed(session: "Session | RemoteSession", text: str) -> bool:
    """Shows what a CREATE OR REPLACE of a query would do, and asks whether to do it."""
    from moldau.sql.errors import SqlError
    from moldau.sql.parser import parse, split
    from moldau.sql.statements import CreateAs

    try:
        statements = parse(text)
    except SqlError:
        return True  # to be refused with the reason
    for written, statement in zip(split(text), statements, strict=True):
        if isinstance(statement, CreateAs) and statement.or_replace:
            await _run(session, f"EXPLAIN {written}", as_json=False)
            if not click.confirm(f"Replace {statement.name}?"):
                return False
    return True


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Errors of statements and of the cluster as one line."""
    from moldau.protocol.errors import KafkaError
    from moldau.sql.errors import SqlError

    try:
        yield
    except SqlError as error:
        raise click.ClickException(str(error)) from error
    except KafkaError as error:
        raise click.ClickException(error.message or error.code.name) from error


async def _run(session: "Session | RemoteSession", text: str, *, as_json: bool) -> None:
    with _plain_errors():
        async for result in session.run(text):
            await _show(result, as_json=as_json)


async def _show(result: "Result", *, as_json: bool) -> None:
    from moldau.sql.running.session import Flow, Message, Table

    match result:
        case Message(text):
            if as_json:
                print_json_line({"message": text})
            else:
                echo(text)
        case Table(columns, rows, title):
            if as_json:
                for row in rows:
                    print_json_line(dict(zip(columns, row, strict=True)))
            else:
                print_table(columns, rows, title=title or None)
        case Flow(columns, coming):
            if not as_json:
                echo("\t".join(columns))
            async for each in coming:
                if each is None:
                    continue
                if as_json:
                    print_json_line(dict(zip(columns, each, strict=True)))
                else:
                    echo("\t".join("" if cell is None else str(cell) for cell in each))
