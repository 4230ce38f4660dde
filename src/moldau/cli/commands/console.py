"""``moldau console``: the web console in the foreground.

Invariant: the ready line is printed when pages are answered. A console that others on the network could use
without a login is not started by mistake.
"""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from moldau.cli.output import log_to_stderr
from moldau.cli.service import host_option, run_service, tls_key_options, tls_of
from moldau.cli.session import FILE, PORT, bootstrap_option, client_settings, log_level_option, needs
from moldau.cli.up.services import DEFAULT_CONSOLE_PORT, next_free_port

if TYPE_CHECKING:
    from moldau.console.masks import Mask
    from moldau.console.oidc.settings import OidcSettings
    from moldau.console.settings import ClusterSettings, ConsoleSettings
    from moldau.web.server import ListenerOptions
    from moldau.web.tls import TlsOptions


@click.command()
@host_option
@click.option(
    "--port", type=PORT, help=f"Default {DEFAULT_CONSOLE_PORT} or the next that is free; 0 is any free one."
)
@bootstrap_option
@click.option(
    "-r",
    "--registry",
    envvar="MOLDAU_SCHEMA_REGISTRY_URL",
    metavar="URL[,…]",
    show_envvar=True,
    help="The schema registry, to decode records and show schemas.",
)
@click.option(
    "--registry-user",
    envvar="MOLDAU_SCHEMA_REGISTRY_USER",
    metavar="NAME:PASSWORD",
    help="Who the console is to the registry.",
)
@click.option("--connect", metavar="URL", help="A worker of Kafka Connect, to show connectors.")
@click.option(
    "--clusters",
    "clusters_file",
    type=FILE,
    metavar="FILE",
    help="A TOML file with several clusters, instead of -b, -r and --connect.",
)
@click.option("--name", default="local", show_default=True, help="What the cluster is called in the console.")
@click.option(
    "--login", is_flag=True, help="Everybody logs in as a user of the cluster (SASL), and acts as that user."
)
@click.option(
    "--oidc",
    "oidc_file",
    type=FILE,
    metavar="FILE",
    help="Everybody logs in at the OpenID Connect provider of this TOML file, and acts with their own token.",
)
@click.option(
    "--shared-services",
    is_flag=True,
    help="People who log in may change schemas and connectors, which know the console and not them.",
)
@click.option("--read-only", is_flag=True, help="Nothing can be changed.")
@click.option(
    "--mask",
    "masks",
    multiple=True,
    metavar="TOPICS:FIELD",
    help="Hide a field, such as 'cust*:value.card'; repeatable.",
)
@click.option("--topic-pattern", metavar="REGEX", help="What the names of new topics have to match.")
@click.option(
    "--topic-rule",
    default="",
    metavar="WORDS",
    help="The same rule in words: 'begin with the team, as team.name'.",
)
@click.option(
    "--audit-file", type=click.Path(dir_okay=False), metavar="FILE", help="Where to write what people do."
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A name that the console is reached by; repeatable.",
)
@click.option("--open", "is_open", is_flag=True, help="Listen on the network without a login all the same.")
@tls_key_options
@log_level_option("warning")
def console(
    host: str,
    port: int | None,
    bootstrap_server: str,
    registry: str | None,
    registry_user: str | None,
    connect: str | None,
    clusters_file: Path | None,
    name: str,
    login: bool,
    oidc_file: Path | None,
    shared_services: bool,
    read_only: bool,
    masks: tuple[str, ...],
    topic_pattern: str | None,
    topic_rule: str,
    audit_file: str | None,
    allowed_hosts: tuple[str, ...],
    is_open: bool,
    tls_cert: Path | None,
    tls_key: Path | None,
    log_level: str,
) -> None:
    """Run the web console until Ctrl-C or SIGTERM: topics, messages, groups, schemas and more in a browser.

    It reaches the cluster by its address alone, so it shows Apache Kafka as well.

    \b
    Examples:
      moldau console
      moldau console -b kafka1:9092 -r http://registry:8081 --read-only
      moldau console --clusters clusters.toml --port 8080
      moldau console --host 0.0.0.0 --login --tls-cert server.pem --tls-key server.key \\
          -X security.protocol=SASL_SSL -X sasl.mechanism=SCRAM-SHA-512
      moldau console --oidc oidc.toml -X security.protocol=SASL_SSL -X sasl.mechanism=OAUTHBEARER
      moldau console --mask 'customers*:value.card' --topic-pattern '[a-z]+\\.[a-z-]+'
    """
    log_to_stderr(log_level)
    with needs("the console", "console"):
        from moldau.console.settings import ConsoleSettings
    login = login or oidc_file is not None
    if not (login or is_open):
        _check_host(host)
    try:
        own = ClusterOptions(name, bootstrap_server, client_settings(), registry, registry_user, connect)
        clusters, hidden = _clusters(own, clusters_file, masks)
        settings = ConsoleSettings(
            clusters,
            _listener(host, port, tls_of(tls_cert, tls_key)),
            *(login, read_only, hidden, topic_pattern, topic_rule, audit_file, allowed_hosts),
            oidc=None if oidc_file is None else _oidc(oidc_file),
            shared_services=shared_services,
        )
    except (ValueError, OSError) as error:
        raise click.UsageError(f"{clusters_file}: {error}" if clusters_file else str(error)) from error
    _run(settings)


def _check_host(host: str) -> None:
    from moldau.base.host_names import is_loopback

    if not is_loopback(host):
        raise click.UsageError(
            f"--host {host} opens the console to the network, and everybody could change everything: "
            "add --login, or --open if that is meant"
        )


def _listener(host: str, port: int | None, tls: "TlsOptions | None") -> "ListenerOptions":
    """Open, because the pages ask for a login, or it is meant: ``_check_host`` has looked."""
    from moldau.web.server import ListenerOptions

    return ListenerOptions(host, _port(host, port), tls=tls, stop_timeout_seconds=2, is_open=True)


def _port(host: str, wanted: int | None) -> int:
    return next_free_port(host, DEFAULT_CONSOLE_PORT, "--port") if wanted is None else wanted


class ClusterOptions(NamedTuple):
    """The one cluster of a command line without ``--clusters``."""

    name: str
    bootstrap_servers: str
    client: dict[str, str]
    schema_registry: str | None
    schema_registry_user: str | None
    connect: str | None


def _clusters(
    own: ClusterOptions, file: Path | None, masks: tuple[str, ...]
) -> "tuple[tuple[ClusterSettings, ...], tuple[Mask, ...]]":
    """Clusters and masks; what is wrong with them is said now, not by the first page (ValueError)."""
    from moldau.console.masks import parse_mask
    from moldau.console.settings import ClusterSettings, read_clusters

    hidden = tuple(parse_mask(each) for each in masks)
    if file is None:
        clusters: tuple[ClusterSettings, ...] = (ClusterSettings(*own),)
    else:
        clusters, more = read_clusters(file.read_text("utf-8"))
        hidden += more
    for each in clusters:
        if not each.knows_users or "sasl.username" in each.client or "sasl.jaas.config" in each.client:
            each.security()
    return clusters, hidden


def _oidc(file: Path) -> "OidcSettings":
    """What is wrong with the file is said with its name (UsageError)."""
    from importlib.util import find_spec

    from moldau.console.oidc.settings import read_oidc

    if find_spec("joserfc") is None:
        raise click.ClickException("--oidc needs joserfc. Next: pip install 'moldau[console,security]'")
    try:
        return read_oidc(file)
    except (ValueError, OSError) as error:
        raise click.UsageError(f"{file}: {error}") from error


def _run(settings: "ConsoleSettings") -> None:
    from moldau.console.server import serve

    def ready(url: str) -> None:
        names = ", ".join(each.name for each in settings.clusters)
        click.echo(f"moldau console ready: {url} ({names})")

    run_service("console", serve, settings, ready)
