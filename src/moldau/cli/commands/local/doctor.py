"""``moldau doctor``: explain what is wrong with an installation, a data directory or a cluster.

Invariant: changes nothing. Exit code 1 when there is a problem, 0 for warnings and less.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from moldau.cli.output import print_json, print_table
from moldau.cli.session import (
    FILE,
    client_settings,
    client_settings_options,
    cluster_options,
    json_option,
    pairs,
    servers_of_profile,
)

if TYPE_CHECKING:
    from moldau.reports.findings import Finding


@click.group(invoke_without_command=True)
@click.option("--data-dir", "data_dirs", multiple=True, metavar="DIR", help="A data directory; repeatable.")
@click.option("--port", type=click.IntRange(1, 65535), help="See whether a broker could listen on this port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address for --port.")
@click.option(
    "-b",
    "--bootstrap-server",
    "--bootstrap-servers",
    "bootstrap_server",
    callback=servers_of_profile,
    metavar="HOST:PORT",
    help="Also ask the brokers of a cluster.",
)
@client_settings_options
@json_option
@click.pass_context
def doctor(
    context: click.Context,
    data_dirs: tuple[str, ...],
    port: int | None,
    host: str,
    bootstrap_server: str | None,
    as_json: bool,
) -> None:
    """Look at the installation, data directories and a cluster, and say what is wrong.

    \b
    Examples:
      moldau doctor
      moldau doctor --data-dir ./data --port 9092
      moldau doctor -b 127.0.0.1:9092 --json
      moldau doctor -b kafka1:9093 --command-config client.properties
      moldau doctor security --config server.properties
    """
    if context.invoked_subcommand is not None:
        return
    from moldau.base.clock import SystemClock
    from moldau.cli.data_directory import examine_directory
    from moldau.cli.reports.diagnosis import check_port, examine_installation

    directories = [Path(name) for name in data_dirs]
    findings = list(examine_installation(SystemClock().monotonic, (directories or [Path.cwd()])[0]))
    if port is not None:
        findings.append(check_port(host, port))
    for directory in directories:
        findings += examine_directory(directory)
    if bootstrap_server is not None:
        findings += _examine_cluster(bootstrap_server)
    _report(findings, as_json)


@doctor.command("security")
@click.option(
    "--config", "config_file", type=FILE, metavar="FILE", help="The server.properties file of the broker."
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting; repeatable.")
@json_option
def security(config_file: Path | None, settings: tuple[str, ...], as_json: bool) -> None:
    """Go through a broker's settings, certificates and files, and say who could get in and what to do.

    \b
    Examples:
      moldau doctor security --config server.properties
      moldau doctor security --set listeners=SASL_SSL://:9093 --json
    """
    import datetime

    from moldau.cli.commands.services.broker import given_settings, jaas_file_settings, read_properties
    from moldau.cli.reports.security_checks import examine_settings

    properties = jaas_file_settings() | ({} if config_file is None else read_properties(config_file))
    given = properties | given_settings(properties, None, None, (), pairs(settings, "--set"))
    now = datetime.datetime.now(datetime.UTC)
    _report(list(examine_settings(given, config_file, now)), as_json)


def _report(findings: "list[Finding]", as_json: bool) -> None:
    """Prints what was found, and ends with exit code 1 when there is a problem."""
    from moldau.reports.findings import Severity

    problems = sum(f.severity is Severity.PROBLEM for f in findings)
    if as_json:
        print_json(
            [
                {
                    "severity": f.severity.value,
                    "subject": f.subject,
                    "text": f.text,
                    "next_step": f.next_step or None,
                }
                for f in findings
            ]
        )
    else:
        rows = [[f.severity.value, f.subject, f.text, f.next_step] for f in findings]
        print_table(["", "Subject", "Finding", "Next step"], rows)
        warnings = sum(f.severity is Severity.WARNING for f in findings)
        click.echo(f"{problems} problem(s), {warnings} warning(s)")
    raise SystemExit(1 if problems else 0)


def _examine_cluster(bootstrap_server: str) -> "list[Finding]":
    """Whether the cluster answers, every broker can be reached and every partition has its replicas."""
    from moldau.cli.reports.cluster_checks import examine_cluster
    from moldau.cli.session import run

    return run(examine_cluster(bootstrap_server, cluster_options(client_settings(), "moldau-doctor")))
