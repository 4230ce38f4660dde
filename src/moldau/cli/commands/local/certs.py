"""``moldau certs``: certificates for a laptop or a test cluster, in one command each."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moldau.cli.output import note

if TYPE_CHECKING:
    from moldau.cli.certificates import Authority


def _directory(command: click.decorators.FC) -> click.decorators.FC:
    return click.option(
        "--directory",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("certs"),
        show_default=True,
        help="Where the authority and its certificates are.",
    )(command)


@click.group()
def certs() -> None:
    """Make certificates for a laptop or a test cluster.

    \b
    Examples:
      moldau certs init
      moldau certs broker broker1 --host broker1.example.com --host 127.0.0.1
      moldau certs client alice
    """


@certs.command("init")
@_directory
def init(directory: Path) -> None:
    """Make an authority that signs certificates."""
    try:
        _authority().create(directory)
    except FileExistsError as error:
        raise click.ClickException(f"{error}; choose another --directory") from None
    click.echo(directory / "ca.pem")
    note(f"Trust {directory / 'ca.pem'}; keep {directory / 'ca.key'} to yourself.")


@certs.command("broker")
@click.argument("name")
@click.option("--host", "hosts", multiple=True, help="A name or address that clients use; repeatable.")
@_directory
def broker(name: str, hosts: tuple[str, ...], directory: Path) -> None:
    """Make the certificate of a broker; localhost unless hosts are named."""
    _issue(directory, name, hosts or ("localhost", "127.0.0.1"))


@certs.command("client")
@click.argument("name")
@_directory
def client(name: str, directory: Path) -> None:
    """Make the certificate of a client, which is User:CN=NAME then."""
    _issue(directory, name, ())


def _issue(directory: Path, name: str, hosts: tuple[str, ...]) -> None:
    if not name or not all(each.isalnum() or each in "-_." for each in name) or name in ("ca", ".", ".."):
        raise click.UsageError("NAME has letters, digits, '-', '_' and '.'")
    try:
        authority = _authority().open(directory)
    except FileNotFoundError:
        missing = f"there is no authority in {directory}: moldau certs init makes one"
        raise click.ClickException(missing) from None
    click.echo(authority.issue(name, hosts=hosts))
    note(f"As PKCS12: {directory / name}.p12, with the password in {directory / 'password'}.")


def _authority() -> "type[Authority]":
    """The library behind it is large, and an extra."""
    if find_spec("cryptography") is None:
        raise click.ClickException("this needs the package cryptography: pip install moldau[security]")
    from moldau.cli.certificates import Authority

    return Authority
