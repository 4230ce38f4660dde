"""``moldau profile``: clusters under a name, with their addresses and secrets (``cli/profiles.py``)."""

import sys
from pathlib import Path

import click

from moldau.cli import profiles
from moldau.cli.output import note, print_json, print_table
from moldau.cli.session import FILE, client_settings, client_settings_options, json_option

_MECHANISMS = click.Choice(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@click.group()
def profile() -> None:
    """Keep addresses and secrets of clusters under a name, readable by you alone.

    A profile is used with --profile NAME, or for every command with MOLDAU_PROFILE=NAME.

    \b
    Examples:
      moldau profile add prod -b broker1:9093 --user ann --ca ca.pem
      moldau profile add test -b test:9092 --command-config client.properties
      moldau topics list --profile prod
      moldau profile show prod
    """


@profile.command("add")
@click.argument("name")
@click.option("-b", "--bootstrap-server", required=True, metavar="HOST:PORT[,…]")
@click.option("--user", help="Log in as this user; the password is asked for.")
@click.option("--mechanism", type=_MECHANISMS, default="SCRAM-SHA-512", show_default=True)
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@click.option("--ca", type=FILE, help="Whom to trust; PEM.")
@click.option("--without-tls", is_flag=True, help="Send everything in the clear.")
@client_settings_options
def add(
    name: str,
    bootstrap_server: str,
    user: str | None,
    mechanism: str,
    password_stdin: bool,
    ca: Path | None,
    without_tls: bool,
) -> None:
    """Make a profile, or replace one."""
    settings = client_settings()
    settings["bootstrap.servers"] = bootstrap_server
    if ca is not None:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(ca)}
    if user is not None:
        password = sys.stdin.readline().rstrip("\n") if password_stdin else None
        if password is None:
            password = click.prompt(f"Password of {user}", hide_input=True)
        settings |= {
            "security.protocol": "SASL_PLAINTEXT" if without_tls else "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": (
                f"{_MODULES[mechanism]} required username={_quoted(user)} password={_quoted(password)};"
            ),
        }
    elif ca is not None:
        settings.setdefault("security.protocol", "SSL")
    for key, value in settings.items():
        if key.endswith(".location"):  # it has to be found from everywhere
            settings[key] = str(Path(value).absolute())
    try:
        path = profiles.save(name, settings, profiles.directory())
    except profiles.ProfileError as error:
        raise click.UsageError(str(error)) from None
    click.echo(f"{name} is in {path}")


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@profile.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List profiles."""
    rows = []
    for name in profiles.names(profiles.directory()):
        try:
            settings = profiles.load(name, profiles.directory())
        except ValueError as error:
            rows.append([name, "", "", str(error)])
            continue
        user = settings.get("sasl.mechanism", "")
        rows.append([name, settings.get("bootstrap.servers", ""), _protocol(settings), user])
    if as_json:
        keys = ("name", "bootstrap_servers", "security_protocol", "sasl_mechanism")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
    elif not rows:
        note("There are no profiles: 'moldau profile add' makes one.")
    else:
        print_table(["Name", "Brokers", "Protocol", "Login"], rows)


def _protocol(settings: dict[str, str]) -> str:
    return settings.get("security.protocol", "PLAINTEXT")


@profile.command("show")
@click.argument("name")
def show(name: str) -> None:
    """Show a profile; secrets are stars."""
    try:
        settings = profiles.load(name, profiles.directory())
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    for key, value in profiles.shown(settings).items():
        click.echo(f"{key}={value}")


@profile.command("remove")
@click.argument("name")
def remove(name: str) -> None:
    """Remove a profile."""
    try:
        profiles.remove(name, profiles.directory())
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{name} is gone")
