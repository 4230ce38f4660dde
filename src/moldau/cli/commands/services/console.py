"""``moldau console``: the web console in the foreground.

Invariant: the ready line is printed when pages are answered. A console that others on the network could use
without a login is not started by mistake.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

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
def console(**options: Any) -> None:
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
    log_to_stderr(options["log_level"])
    with needs("the console", "console"):
        from moldau.console.settings import ConsoleSettings
    file, oidc_file = options["clusters_file"], options["oidc_file"]
    login = options["login"] or oidc_file is not None
    if not (login or options["is_open"]):
        _check_host(options["host"])
    same = ("read_only", "topic_pattern", "topic_rule", "audit_file", "allowed_hosts", "shared_services")
    try:
        clusters, masks = _clusters(options, file)
        settings = ConsoleSettings(
            clusters,
            _listener(options),
            login,
            masks=masks,
            oidc=None if oidc_file is None else _oidc(oidc_file),
            **{name: options[name] for name in same},
        )
    except (ValueError, OSError) as error:
        raise click.UsageError(f"{file}: {error}" if file else str(error)) from error
    _run(settings)


def _check_host(host: str) -> None:
    from moldau.base.host_names import is_loopback

    if not is_loopback(host):
        raise click.UsageError(
            f"--host {host} opens the console to the network, and everybody could change everything: "
            "add --login, or --open if that is meant"
        )


def _listener(options: dict[str, Any]) -> "ListenerOptions":
    """Open, because the pages ask for a login, or it is meant: ``_check_host`` has looked."""
    from moldau.web.server import ListenerOptions

    host, port = options["host"], options["port"]
    if port is None:
        port = next_free_port(host, DEFAULT_CONSOLE_PORT, "--port")
    tls = tls_of(options["tls_cert"], options["tls_key"])
    return ListenerOptions(host, port, tls=tls, stop_timeout_seconds=2, is_open=True)


def _clusters(
    options: dict[str, Any], file: Path | None
) -> "tuple[tuple[ClusterSettings, ...], tuple[Mask, ...]]":
    """Clusters and masks; what is wrong with them is said now, not by the first page (ValueError)."""
    from moldau.console.masks import parse_mask
    from moldau.console.settings import ClusterSettings, read_clusters

    masks = tuple(parse_mask(each) for each in options["masks"])
    if file is None:
        own = ClusterSettings(
            options["name"],
            options["bootstrap_server"],
            client_settings(),
            options["registry"],
            options["registry_user"],
            options["connect"],
        )
        clusters: tuple[ClusterSettings, ...] = (own,)
    else:
        clusters, more = read_clusters(file.read_text("utf-8"))
        masks += more
    for each in clusters:
        if not each.knows_users or "sasl.username" in each.client or "sasl.jaas.config" in each.client:
            each.security()
    return clusters, masks


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
