"""``moldau rest``: one REST proxy in the foreground.

Options become ``ServerOptions`` for ``moldau.rest``, and errors at the start become one line with a next
step.

Invariant: the ready line is printed when requests are answered, not before.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moldau.cli.commands.registry import credentials
from moldau.cli.output import log_to_stderr
from moldau.cli.service import run_service
from moldau.cli.session import client_settings, client_settings_options

if TYPE_CHECKING:
    from moldau.rest.proxy import Proxy
    from moldau.rest.server import ServerOptions

_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_EXTRA = "Next: pip install 'moldau[rest]'"
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(short_help="Run a REST proxy in the foreground: topics over HTTP.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8082, show_default=True, help="0 is a free port."
)
@click.option("--or-free-port", is_flag=True, help="Take a free port where --port is in use.")
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
    "--registry-url",
    envvar="MOLDAU_REGISTRY_URL",
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
@click.option(
    "--user",
    "users",
    multiple=True,
    metavar="NAME:PASSWORD",
    help="Who may use the proxy; may be repeated. All of them are one principal to the cluster.",
)
@click.option(
    "--user-file", type=_FILE, help="A file with one NAME:PASSWORD on each line, in place of --user."
)
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
    type=_FILE,
    help="Passwords (NAME:PASSWORD) of the cluster's users that client certificates stand for.",
)
@click.option(
    "--principal-mapping",
    default="DEFAULT",
    show_default=True,
    metavar="RULES",
    help="From certificates to names, as in ssl.principal.mapping.rules.",
)
@click.option("--tls-cert", type=_FILE, help="The certificate (PEM): serve https.")
@click.option("--tls-key", type=_FILE, help="The key of the certificate (PEM).")
@click.option(
    "--tls-client-ca",
    type=_FILE,
    help="Authorities (PEM) that have to have signed the certificate of each client.",
)
@click.option("--max-request-bytes", type=click.IntRange(min=1), default=10 * 1024 * 1024, show_default=True)
@click.option(
    "--max-requests-per-second",
    type=click.FloatRange(min=0),
    default=0,
    show_default=True,
    help="Of one user, or of one address without users; 0 is any number.",
)
@click.option(
    "--consumer-idle-ms",
    type=click.IntRange(min=1_000),
    default=300_000,
    show_default=True,
    help="A consumer instance that is not used for so long ends.",
)
@click.option("--max-consumers", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
)
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
    log_to_stderr(options["log_level"], _LOG_FORMAT)
    for option in ("tls_key", "tls_client_ca"):
        if options[option] is not None and options["tls_cert"] is None:
            name = option.replace("_", "-")
            raise click.UsageError(f"--{name} belongs to a certificate: give --tls-cert too")
    if options["pass_login"] and (options["users"] or options["user_file"]):
        raise click.UsageError("--pass-login leaves logins to the cluster: leave out --user and --user-file")
    if options["certificate_users"] is not None and not options["pass_login"]:
        raise click.UsageError("--certificate-users belongs to --pass-login")
    _run(_server_options(options))


def _server_options(options: dict[str, Any]) -> "ServerOptions":
    from moldau.client.transport.security import Security

    try:
        from moldau.rest.proxy import ProxyOptions
        from moldau.rest.server import ServerOptions
        from moldau.rest.sessions import SessionOptions
        from moldau.web.limits import Limits
        from moldau.web.server import ListenerOptions
        from moldau.web.tls import TlsOptions
    except ImportError as error:
        raise click.ClickException(f"the REST proxy needs {error.name}. {_EXTRA}") from error
    try:
        security = Security.of(client_settings())
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    certificate = options["tls_cert"]
    tls = TlsOptions(certificate, options["tls_key"], options["tls_client_ca"]) if certificate else None
    return ServerOptions(
        ProxyOptions(
            SessionOptions(options["bootstrap_servers"], security),
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
