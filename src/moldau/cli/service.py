"""Runs a service over HTTP in the foreground: until Ctrl-C or SIGTERM, with its errors in one line.

Invariant: what the service says of itself is printed by its ``ready`` function, when requests are answered.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import asyncio

    from moldau.web.server import ListenerOptions


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

    async def work() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await serve(options, ready, stop)

    listener: ListenerOptions = options.listener
    try:
        run(work())
    except ssl.SSLError as error:
        raise click.ClickException(
            f"the certificate cannot be used: {error}. Next: check it and its key"
        ) from error
    except OSError as error:
        step = "choose another --port or --host, or stop what listens there"
        where = f"{listener.host}:{listener.port}"
        raise click.ClickException(f"cannot listen on {where}: {error.strerror}. Next: {step}") from error
    click.echo(f"moldau {name} stopped")
