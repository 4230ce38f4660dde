"""What commands share that run a service over HTTP in the foreground: options, and running until Ctrl-C or
SIGTERM, with errors in one line.

Invariant: what the service says of itself is printed by its ``ready`` function, when requests are answered.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from moldau.cli.session import FILE, PORT

if TYPE_CHECKING:
    import asyncio

    from moldau.client.transport.security import Security
    from moldau.web.server import ListenerOptions
    from moldau.web.tls import TlsOptions

_F = TypeVar("_F", bound=Callable[..., Any])

host_option = click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
_user_option = click.option(
    "--user",
    "users",
    multiple=True,
    metavar="NAME:PASSWORD",
    help="Who may use it; may be repeated. To the cluster all of them are one.",
)
_user_file_option = click.option(
    "--user-file",
    type=FILE,
    help='A file with one NAME:PASSWORD, or user_NAME="PASSWORD" as in a JAAS file, on each line.',
)
_tls_cert_option = click.option("--tls-cert", type=FILE, help="The certificate (PEM): serve https.")
_tls_key_option = click.option("--tls-key", type=FILE, help="The key of the certificate (PEM).")
_tls_client_ca_option = click.option(
    "--tls-client-ca",
    type=FILE,
    help="Authorities (PEM) that have to have signed the certificate of each client.",
)
_open_option = click.option(
    "--open", "is_open", is_flag=True, help="Let everybody in who reaches the address, without a login."
)
rate_option = click.option(
    "--max-requests-per-second",
    type=click.FloatRange(min=0),
    default=0,
    show_default=True,
    help="Of one user, or of one address without users; 0 is any number.",
)


def port_option(port: int) -> Callable[[_F], _F]:
    return click.option("--port", type=PORT, default=port, show_default=True, help="0 is a free port.")


def user_options(command: _F) -> _F:
    """Adds ``--user`` and ``--user-file``, whose values ``credentials`` reads, and ``--open``."""
    return _user_option(_user_file_option(_open_option(command)))


def tls_key_options(command: _F) -> _F:
    """Adds ``--tls-cert`` and ``--tls-key``."""
    return _tls_cert_option(_tls_key_option(command))


def tls_options(command: _F) -> _F:
    """Adds ``--tls-cert``, ``--tls-key`` and ``--tls-client-ca``, whose values ``tls_of`` reads."""
    return tls_key_options(_tls_client_ca_option(command))


def tls_of(certificate: Path | None, key: Path | None, client_ca: Path | None = None) -> "TlsOptions | None":
    from moldau.web.tls import TlsOptions

    if certificate is not None:
        return TlsOptions(certificate, key, client_ca)
    for option, path in (("--tls-key", key), ("--tls-client-ca", client_ca)):
        if path is not None:
            raise click.UsageError(f"{option} belongs to a certificate: give --tls-cert too")
    return None


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


def client_security(settings: dict[str, str]) -> "Security":
    """How to reach the cluster; settings that cannot be met are wrong usage."""
    from moldau.client.transport.security import Security

    try:
        return Security.of(settings)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def run_service(
    name: str,
    serve: "Callable[[Any, Callable[..., None], asyncio.Event], Awaitable[None]]",
    options: Any,
    ready: Callable[..., None],
) -> None:
    """``serve`` gets the options, which have a ``listener``, and returns when the event is set."""
    import asyncio
    import signal
    import ssl

    from moldau.cli.session import run
    from moldau.web.server import OpenToNetwork

    async def work() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await serve(options, ready, stop)

    listener: ListenerOptions = options.listener
    try:
        run(work())
    except OpenToNetwork as error:
        raise click.ClickException(str(error)) from error
    except ssl.SSLError as error:
        raise click.ClickException(
            f"the certificate cannot be used: {error}. Next: check it and its key"
        ) from error
    except OSError as error:
        step = "choose another --port or --host, or stop what listens there"
        where = f"{listener.host}:{listener.port}"
        raise click.ClickException(f"cannot listen on {where}: {error.strerror}. Next: {step}") from error
    click.echo(f"moldau {name} stopped")
