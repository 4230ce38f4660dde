"""``moldau registry``: one instance of the schema registry in the foreground.

Options become ``ServerOptions`` for ``moldau.registry``, and errors at the start become one line with a next
step.

Invariant: the ready line is printed when requests are answered, not before.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from moldau.cli.output import log_to_stderr
from moldau.cli.service import run_service
from moldau.cli.session import client_settings, client_settings_options

if TYPE_CHECKING:
    from moldau.client.transport.security import Security
    from moldau.registry.server import ServerOptions
    from moldau.registry.service import Registry

_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_EXTRA = "Next: pip install 'moldau[registry]'"


@click.command(short_help="Run a schema registry in the foreground.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8081, show_default=True, help="0 is a free port."
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
    help="One or more brokers of the cluster that keeps the schemas; Apache Kafka will do.",
)
@client_settings_options
@click.option(
    "--advertised-host", metavar="HOST", help="How other instances reach this one, if not by --host."
)
@click.option("--topic", default="_schemas", show_default=True, help="The topic that holds the schemas.")
@click.option("--group", default="schema-registry", show_default=True, help="The group of all instances.")
@click.option("--read-only", is_flag=True, help="Answer questions only; never lead, never write.")
@click.option(
    "--user", "users", multiple=True, metavar="NAME:PASSWORD", help="Who may use it; may be repeated."
)
@click.option(
    "--user-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='A file with one NAME:PASSWORD, or user_NAME="PASSWORD" as in a JAAS file, on each line.',
)
@click.option(
    "--tls-cert",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The certificate (PEM): serve https.",
)
@click.option(
    "--tls-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The key of the certificate (PEM).",
)
@click.option(
    "--tls-client-ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Authorities (PEM) that have to have signed the certificate of each client.",
)
@click.option("--max-request-bytes", type=click.IntRange(min=1), default=2 * 1024 * 1024, show_default=True)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
)
def registry(
    host: str,
    port: int,
    bootstrap_servers: str,
    advertised_host: str | None,
    topic: str,
    group: str,
    read_only: bool,
    users: tuple[str, ...],
    user_file: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
    max_request_bytes: int,
    log_level: str,
) -> None:
    """Run a schema registry in the foreground until Ctrl-C or SIGTERM.

    It speaks the API of Confluent's registry and keeps its schemas in the topic _schemas.

    \b
    Examples:
      moldau registry
      moldau registry --port 8081 --bootstrap-servers kafka1:9092,kafka2:9092
      moldau registry --host 0.0.0.0 --advertised-host registry1.example.com --user-file users.txt
      moldau registry --tls-cert server.pem --tls-key server.key --user ann:secret
      moldau registry -b kafka1:9093 --command-config client.properties
    """
    log_to_stderr(log_level, _LOG_FORMAT)
    for option, path in (("--tls-key", tls_key), ("--tls-client-ca", tls_client_ca)):
        if path is not None and tls_cert is None:
            raise click.UsageError(f"{option} belongs to a certificate: give --tls-cert too")
    try:
        from moldau.registry.server import ServerOptions
        from moldau.web.limits import Limits
        from moldau.web.server import ListenerOptions
        from moldau.web.tls import TlsOptions
    except ImportError as error:
        raise click.ClickException(f"the registry needs {error.name}. {_EXTRA}") from error
    servers, security = kafkastore(bootstrap_servers, client_settings())
    tls = None if tls_cert is None else TlsOptions(tls_cert, tls_key, tls_client_ca)
    _run(
        ServerOptions(
            bootstrap_servers=servers,
            listener=ListenerOptions(host, port, advertised_host, tls),
            topic=topic,
            group_id=group,
            read_only=read_only,
            users=credentials(users, user_file),
            limits=Limits(max_body_bytes=max_request_bytes),
            security=security,
        )
    )


def credentials(users: tuple[str, ...], user_file: Path | None) -> dict[str, str]:
    """Names and passwords; empty lines of the file and those that begin with # are ignored."""
    from moldau.web.authentication import read_users, user_entries

    given = list(users)
    if user_file is not None:
        given += user_entries(user_file.read_text("utf-8"))
    try:
        found = read_users(given)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if user_file is not None and not found:
        raise click.UsageError(f"{user_file} names nobody: without users everybody may do everything")
    return found


def kafkastore(bootstrap_servers: str, settings: Mapping[str, str]) -> "tuple[str, Security]":
    """Brokers and security, from the client's settings and, before them, Confluent's ``kafkastore.*``.

    The addresses in the settings are used where the command line has none.
    """
    from moldau.client.transport.security import Security

    own = {
        name.removeprefix("kafkastore."): value
        for name, value in settings.items()
        if name.startswith("kafkastore.")
    }
    found = {**settings, **own}
    context = click.get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source("bootstrap_servers")
    if source is ParameterSource.DEFAULT and "bootstrap.servers" in found:
        # Confluent writes the protocol before each address: SASL_SSL://kafka1:9093
        addresses = found["bootstrap.servers"].split(",")
        bootstrap_servers = ",".join(address.rpartition("://")[2].strip() for address in addresses)
    try:
        return bootstrap_servers, Security.of(found)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _run(options: "ServerOptions") -> None:
    from moldau.registry.server import serve

    def ready(url: str, registry: "Registry") -> None:
        count = len(registry.state.subjects(":*:"))
        click.echo(f"moldau registry ready: {url} ({count} subjects, topic {options.topic})")

    run_service("registry", serve, options, ready)
