"""``moldau rest``: one REST proxy in the foreground.

Options become ``ServerOptions`` for ``moldau.rest``, and errors at the start become one line with a next
step.

Invariant: the ready line is printed when requests are answered, not before.
"""

from typing import TYPE_CHECKING, Any

import click

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
from moldau.cli.session import FILE, bootstrap_option, client_settings, log_level_option, needs

if TYPE_CHECKING:
    from moldau.rest.proxy import Proxy
    from moldau.rest.server import ServerOptions


@click.command()
@host_option
@port_option(8082)
@click.option("--or-free-port", is_flag=True, help="Take a free port where --port is in use.")
@bootstrap_option
@click.option(
    "-r",
    "--registry",
    "--registry-url",
    "registry_url",
    envvar="MOLDAU_SCHEMA_REGISTRY_URL",
    show_envvar=True,
    metavar="URL",
    help="The schema registry, for records in Avro, JSON Schema and Protobuf.",
)
@click.option("--advertised-host", metavar="HOST", help="How other proxies reach this one, if not by --host.")
@click.option(
    "--group",
    default="moldau-rest",
    show_default=True,
    help="The Kafka group by which proxies find each other.",
)
@click.option("--alone", is_flag=True, help="Look for no other proxies.")
@user_options
@click.option(
    "--pass-login",
    is_flag=True,
    help="Pass logins on to the cluster, whose ACLs then decide: names and passwords, bearer tokens.",
)
@click.option(
    "--login-mechanism",
    type=click.Choice(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]),
    default="PLAIN",
    show_default=True,
    help="How names and passwords are passed on.",
)
@click.option(
    "--certificate-users",
    type=FILE,
    help="Passwords (NAME:PASSWORD) of the cluster's users that client certificates stand for.",
)
@click.option(
    "--principal-mapping",
    default="DEFAULT",
    show_default=True,
    metavar="RULES",
    help="From certificates to names, as in ssl.principal.mapping.rules.",
)
@tls_options
@click.option("--max-request-bytes", type=click.IntRange(min=1), default=10 * 1024 * 1024, show_default=True)
@rate_option
@click.option(
    "--consumer-idle-ms",
    type=click.IntRange(min=1_000),
    default=300_000,
    show_default=True,
    help="A consumer instance that is not used for so long ends.",
)
@click.option("--max-consumers", type=click.IntRange(min=1), default=10_000, show_default=True)
@log_level_option("warning")
def rest(**options: Any) -> None:
    """Run a REST proxy in the foreground until Ctrl-C or SIGTERM.

    It speaks v2 and v3 of Confluent's REST Proxy. Start several of them behind a load balancer: a consumer
    instance can be reached through each.

    \b
    Examples:
      moldau rest
      moldau rest --port 8082 --bootstrap-servers kafka1:9092,kafka2:9092 --registry-url http://127.0.0.1:8081
      moldau rest --host 0.0.0.0 --advertised-host rest1.example.com --user-file users.txt
      moldau rest --tls-cert server.pem --tls-key server.key --pass-login --login-mechanism SCRAM-SHA-512 \\
          -b kafka1:9093 --command-config client.properties
    """
    log_to_stderr(options["log_level"])
    if options["pass_login"] and (options["users"] or options["user_file"]):
        raise click.UsageError("--pass-login leaves logins to the cluster: leave out --user and --user-file")
    if options["certificate_users"] is not None and not options["pass_login"]:
        raise click.UsageError("--certificate-users belongs to --pass-login")
    _run(_server_options(options))


def _server_options(options: dict[str, Any]) -> "ServerOptions":
    tls = tls_of(options["tls_cert"], options["tls_key"], options["tls_client_ca"])
    with needs("the REST proxy", "rest"):
        from moldau.rest.proxy import ProxyOptions
        from moldau.rest.server import ServerOptions
        from moldau.rest.sessions import SessionOptions
        from moldau.web.limits import Limits
        from moldau.web.server import ListenerOptions
    return ServerOptions(
        ProxyOptions(
            SessionOptions(options["bootstrap_server"], client_security(client_settings())),
            registry_url=options["registry_url"],
            group_id=None if options["alone"] else options["group"],
            consumer_idle_timeout_ms=options["consumer_idle_ms"],
            max_consumers=options["max_consumers"],
        ),
        listener=ListenerOptions(
            options["host"],
            options["port"],
            options["advertised_host"],
            tls,
            or_free_port=options["or_free_port"],
            is_open=options["is_open"],
        ),
        limits=Limits(
            max_body_bytes=options["max_request_bytes"],
            max_requests_per_second=options["max_requests_per_second"],
        ),
        users=credentials(options["users"], options["user_file"]),
        pass_login=options["pass_login"],
        login_mechanism=options["login_mechanism"],
        certificate_users=credentials((), options["certificate_users"]),
        principal_mapping=options["principal_mapping"],
    )


def _run(options: "ServerOptions") -> None:
    from moldau.base.allocator import collect_rarely
    from moldau.rest.server import serve

    def ready(url: str, proxy: "Proxy") -> None:
        collect_rarely()
        click.echo(f"moldau rest ready: {url} (cluster {options.proxy.sessions.bootstrap_servers})")

    run_service("rest", serve, options, ready)
