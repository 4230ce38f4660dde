"""``moldau registry``: one instance of the schema registry in the foreground.

Options become ``ServerOptions`` for ``moldau.registry``, and errors at the start become one line with a next
step.

Invariant: the ready line is printed when requests are answered, not before.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from moldau.cli.output import log_to_stderr
from moldau.cli.service import (
    client_security,
    credentials,
    host_option,
    port_option,
    run_service,
    tls_of,
    tls_options,
    user_options,
)
from moldau.cli.session import bootstrap_option, client_settings, log_level_option, needs

if TYPE_CHECKING:
    from moldau.client.transport.security import Security
    from moldau.registry.server import ServerOptions
    from moldau.registry.service import Registry


@click.command()
@host_option
@port_option(8081)
@bootstrap_option
@click.option(
    "--advertised-host", metavar="HOST", help="How other instances reach this one, if not by --host."
)
@click.option("--topic", default="_schemas", show_default=True, help="The topic that holds the schemas.")
@click.option("--group", default="schema-registry", show_default=True, help="The group of all instances.")
@click.option("--read-only", is_flag=True, help="Answer questions only; never lead, never write.")
@user_options
@tls_options
@click.option("--max-request-bytes", type=click.IntRange(min=1), default=2 * 1024 * 1024, show_default=True)
@log_level_option("warning")
def registry(**options: Any) -> None:
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
    log_to_stderr(options["log_level"])
    _run(_server_options(options))


def _server_options(options: dict[str, Any]) -> "ServerOptions":
    tls = tls_of(options["tls_cert"], options["tls_key"], options["tls_client_ca"])
    with needs("the registry", "registry"):
        from moldau.registry.server import ServerOptions
        from moldau.web.limits import Limits
        from moldau.web.server import ListenerOptions
    servers, security = kafkastore(options["bootstrap_server"], client_settings())
    host, port, advertised = options["host"], options["port"], options["advertised_host"]
    return ServerOptions(
        bootstrap_servers=servers,
        listener=ListenerOptions(host, port, advertised, tls, is_open=options["is_open"]),
        topic=options["topic"],
        group_id=options["group"],
        read_only=options["read_only"],
        users=credentials(options["users"], options["user_file"]),
        limits=Limits(max_body_bytes=options["max_request_bytes"]),
        security=security,
    )


def kafkastore(bootstrap_servers: str, settings: Mapping[str, str]) -> "tuple[str, Security]":
    """Brokers and security, from the client's settings and, before them, Confluent's ``kafkastore.*``.

    The addresses in the settings are used where the command line has none.
    """
    own = {
        name.removeprefix("kafkastore."): value
        for name, value in settings.items()
        if name.startswith("kafkastore.")
    }
    found = {**settings, **own}
    context = click.get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source("bootstrap_server")
    if source is ParameterSource.DEFAULT and "bootstrap.servers" in found:
        # Confluent writes the protocol before each address: SASL_SSL://kafka1:9093
        addresses = found["bootstrap.servers"].split(",")
        bootstrap_servers = ",".join(address.rpartition("://")[2].strip() for address in addresses)
    return bootstrap_servers, client_security(found)


def _run(options: "ServerOptions") -> None:
    from moldau.registry.server import serve

    def ready(url: str, registry: "Registry") -> None:
        count = len(registry.state.subjects(":*:"))
        click.echo(f"moldau registry ready: {url} ({count} subjects, topic {options.topic})")

    run_service("registry", serve, options, ready)
