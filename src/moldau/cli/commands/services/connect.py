"""``moldau connect`` and ``moldau connect-standalone``: workers that run connectors, from files of
properties.

The first runs one worker of a cluster, the second a worker alone with the connectors that it is given.

Invariant: the ready line is printed when requests are answered, not before.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moldau.cli.output import log_to_stderr
from moldau.cli.service import credentials, user_options
from moldau.cli.session import FILE, log_level_option, needs

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine
    from typing import Any

    from moldau.connect.worker.herder import Herder
    from moldau.connect.worker.server import Ready


@click.command()
@click.argument("worker", type=FILE, metavar="WORKER.PROPERTIES")
@user_options
@log_level_option("warning")
def connect(
    worker: Path, users: tuple[str, ...], user_file: Path | None, is_open: bool, log_level: str
) -> None:
    """Run one worker until Ctrl-C or SIGTERM, as Kafka's connect-distributed does.

    Workers with the same group.id share connectors: each runs on one of them, and on another when that one
    goes. Connectors are made over REST (listeners, http://127.0.0.1:8083 by default), with any of the
    workers.

    \b
    Example:
      moldau connect worker.properties
    """
    log_to_stderr(log_level)
    with needs("a worker", "connect"):
        from moldau.client.transport.security import Security
        from moldau.connect.errors import JavaError
        from moldau.connect.worker.server import DistributedOptions, serve_distributed
        from moldau.connect.worker.settings import distributed_settings
    try:
        settings = distributed_settings(read_file(worker))
        security = Security.of(settings.worker.given)
    except (JavaError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    options = DistributedOptions(settings, credentials(users, user_file), security, is_open)
    _run(partial(serve_distributed, options))


@click.command()
@click.argument("worker", type=FILE, metavar="WORKER.PROPERTIES")
@click.argument("connectors", type=FILE, nargs=-1, metavar="[CONNECTOR.PROPERTIES]…")
@user_options
@log_level_option("warning")
def connect_standalone(
    worker: Path,
    connectors: tuple[Path, ...],
    users: tuple[str, ...],
    user_file: Path | None,
    is_open: bool,
    log_level: str,
) -> None:
    """Run connectors until Ctrl-C or SIGTERM, as Kafka's connect-standalone does.

    The first file has the settings of the worker, each further one a connector; a connector's file may be
    JSON too. More connectors may be made over REST (listeners, http://127.0.0.1:8083 by default).

    \b
    Example:
      moldau connect-standalone worker.properties source.properties sink.properties
    """
    log_to_stderr(log_level)
    with needs("a worker", "connect"):
        from moldau.client.transport.security import Security
        from moldau.connect.errors import JavaError
        from moldau.connect.worker.server import StandaloneOptions, serve
        from moldau.connect.worker.settings import standalone_settings
    try:
        given = read_file(worker)
        settings = standalone_settings(given)
        configs = [read_connector(path) for path in connectors]
        security = Security.of(settings.given)
    except (JavaError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    options = StandaloneOptions(settings, configs, credentials(users, user_file), security, is_open)
    _run(partial(serve, options))


def read_file(path: Path) -> dict[str, str]:
    from moldau.base.settings import parse_properties

    return parse_properties(path.read_text("utf-8"))


def read_connector(path: Path) -> dict[str, str]:
    """A connector's configuration: properties, or JSON as REST takes it."""
    import json

    text = path.read_text("utf-8")
    if not text.lstrip().startswith("{"):
        return read_file(path)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise click.ClickException(f"{path} is no JSON: {error}") from error
    config = {**found["config"], "name": found.get("name", "")} if "config" in found else found
    return {str(name): str(value) for name, value in config.items()}


def _run(serve: "Callable[[Ready, asyncio.Event], Coroutine[Any, Any, None]]") -> None:
    import asyncio
    import signal

    from moldau.cli.session import run
    from moldau.connect.errors import JavaError
    from moldau.web.server import OpenToNetwork

    def ready(url: str, herder: "Herder") -> None:
        for name in herder.names():
            click.echo(f"Created connector {name}")
        click.echo(f"moldau connect ready: {url} ({len(herder.names())} connectors)")

    async def work() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await serve(ready, stop)

    try:
        run(work())
    except (JavaError, OpenToNetwork) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"the worker cannot start: {error}") from error
