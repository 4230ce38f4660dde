"""``moldau sql-server``: one SQL server in the foreground.

Options become ``ServerOptions`` for ``moldau.sql.server``; errors at the start become one line.

Invariant: the ready line is printed when requests are answered, not before.
"""

from typing import TYPE_CHECKING, Any

import click

from moldau.cli.commands.programs.sql import functions_option, registry_option
from moldau.cli.output import log_to_stderr
from moldau.cli.service import (
    client_security,
    credentials,
    host_option,
    port_option,
    rate_option,
    run_service,
    tls_of,
    tls_options,
    user_options,
)
from moldau.cli.session import (
    bootstrap_option,
    client_settings,
    client_settings_arguments,
    log_level_option,
    needs,
)

if TYPE_CHECKING:
    from moldau.sql.server.server import ServerOptions
    from moldau.sql.server.service import SqlService


@click.command(name="sql-server")
@host_option
@port_option(8088)
@bootstrap_option
@registry_option
@click.option("--home", metavar="DIR", help="Where queries that are kept have their files.")
@click.option(
    "--run-option",
    "run_options",
    multiple=True,
    metavar="OPTION",
    help="An option of 'moldau streams run' for every query, such as --run-option=--workers=2; repeatable.",
)
@functions_option
@click.option("--no-queries", is_flag=True, help="Refuse statements whose queries would be kept.")
@click.option("--service-id", default="default_", show_default=True, help="What /info says.")
@user_options
@tls_options
@click.option("--max-request-bytes", type=click.IntRange(min=1), default=2 * 1024 * 1024, show_default=True)
@rate_option
@log_level_option("warning")
def sql_server(**options: Any) -> None:
    """Run a SQL server in the foreground until Ctrl-C or SIGTERM.

    It answers on ksqlDB's paths: /ksql, /query, /query-stream, /inserts-stream, /info, /healthcheck and more.
    Statements are kept in a compacted topic. Queries that are kept run on Spark, each in a process of its
    own; they are started again when they or the machine end, and go on when the server stops.

    \b
    Examples:
      moldau sql-server
      moldau sql-server --port 8088 -b kafka1:9092,kafka2:9092 --schema-registry http://127.0.0.1:8081
      moldau sql-server --host 0.0.0.0 --user-file users.txt --tls-cert server.pem --tls-key server.key
      curl localhost:8088/ksql -d '{"ksql": "SHOW STREAMS;"}'
    """
    log_to_stderr(options["log_level"])
    _run(_server_options(options))


def _server_options(options: dict[str, Any]) -> "ServerOptions":
    tls = tls_of(options["tls_cert"], options["tls_key"], options["tls_client_ca"])
    with needs("the SQL server", "sql-server"):
        from moldau.sql.running.query_processes import QueryProcesses
        from moldau.sql.server.server import ServerOptions
        from moldau.web.limits import Limits
        from moldau.web.server import ListenerOptions
    servers = options["bootstrap_server"]
    # Queries log in as the server does.
    run_options = (*client_settings_arguments(), *options["run_options"])
    runner = None if options["no_queries"] else QueryProcesses(servers, options["home"], run_options)
    return ServerOptions(
        servers,
        client_security(client_settings()),
        options["schema_registry"],
        runner,
        options["service_id"],
        options["functions"],
        ListenerOptions(options["host"], options["port"], tls=tls, is_open=options["is_open"]),
        Limits(
            request_timeout_ms=600_000,
            max_body_bytes=options["max_request_bytes"],
            max_requests_per_second=options["max_requests_per_second"],
        ),
        credentials(options["users"], options["user_file"]),
    )


def _run(options: "ServerOptions") -> None:
    from moldau.sql.server.server import serve

    def ready(url: str, service: "SqlService") -> None:
        click.echo(f"moldau sql-server ready: {url} (cluster {options.bootstrap_servers})")

    run_service("sql-server", serve, options, ready)
