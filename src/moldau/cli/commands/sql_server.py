"""``moldau sql-server``: one SQL server in the foreground.

Options become ``ServerOptions`` for ``moldau.sql.server``; errors at the start become one line.

Invariant: the ready line is printed when requests are answered, not before.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moldau.cli.commands.registry import credentials
from moldau.cli.commands.sql import functions_option
from moldau.cli.output import log_to_stderr
from moldau.cli.service import run_service
from moldau.cli.session import client_settings, client_settings_arguments, client_settings_options

if TYPE_CHECKING:
    from moldau.sql.server.server import ServerOptions
    from moldau.sql.server.service import SqlService

_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(name="sql-server", short_help="Run a SQL server in the foreground: ksqlDB's REST paths.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8088, show_default=True, help="0 is a free port."
)
@click.option(
    "-b",
    "--bootstrap-servers",
    "--bootstrap-server",
    "bootstrap_servers",
    envvar="MOLDAU_BOOTSTRAP_SERVERS",
    default="127.0.0.1:9092",
    show_default=True,
    show_envvar=True,
    metavar="HOST:PORT[,…]",
    help="One or more brokers of the cluster; Apache Kafka will do.",
)
@client_settings_options
@click.option(
    "--schema-registry",
    envvar="MOLDAU_SCHEMA_REGISTRY",
    show_envvar=True,
    metavar="URL",
    help="For AVRO, PROTOBUF and JSON_SR.",
)
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
@click.option(
    "--user",
    "users",
    multiple=True,
    metavar="NAME:PASSWORD",
    help="Who may use the server; may be repeated. All of them are one principal to the cluster.",
)
@click.option(
    "--user-file", type=_FILE, help="A file with one NAME:PASSWORD on each line, in place of --user."
)
@click.option("--tls-cert", type=_FILE, help="The certificate (PEM): serve https.")
@click.option("--tls-key", type=_FILE, help="The key of the certificate (PEM).")
@click.option(
    "--tls-client-ca",
    type=_FILE,
    help="Authorities (PEM) that have to have signed the certificate of each client.",
)
@click.option("--max-request-bytes", type=click.IntRange(min=1), default=2 * 1024 * 1024, show_default=True)
@click.option(
    "--max-requests-per-second",
    type=click.FloatRange(min=0),
    default=0,
    show_default=True,
    help="Of one user, or of one address without users; 0 is any number.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
)
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
    log_to_stderr(options["log_level"], _LOG_FORMAT)
    for option in ("tls_key", "tls_client_ca"):
        if options[option] is not None and options["tls_cert"] is None:
            name = option.replace("_", "-")
            raise click.UsageError(f"--{name} belongs to a certificate: give --tls-cert too")
    _run(_server_options(options))


def _server_options(options: dict[str, Any]) -> "ServerOptions":
    from moldau.client.transport.security import Security

    try:
        from moldau.sql.running.query_processes import QueryProcesses
        from moldau.sql.server.server import ServerOptions
        from moldau.web.limits import Limits
        from moldau.web.server import ListenerOptions
        from moldau.web.tls import TlsOptions
    except ImportError as error:
        raise click.ClickException(
            f"the SQL server needs {error.name}. Next: pip install 'moldau[sql-server]'"
        ) from error
    try:
        security = Security.of(client_settings())
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    certificate = options["tls_cert"]
    tls = TlsOptions(certificate, options["tls_key"], options["tls_client_ca"]) if certificate else None
    servers = options["bootstrap_servers"]
    # Queries log in as the server does.
    run_options = (*client_settings_arguments(), *options["run_options"])
    runner = None if options["no_queries"] else QueryProcesses(servers, options["home"], run_options)
    return ServerOptions(
        servers,
        security,
        options["schema_registry"],
        runner,
        options["service_id"],
        options["functions"],
        ListenerOptions(options["host"], options["port"], tls=tls),
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
