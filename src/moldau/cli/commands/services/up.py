"""``moldau up``: the platform on this machine with one command, and ``--demo`` to see it at work.

Invariant: a service that ends by itself ends the others, its last lines are shown, and the exit code is 1. A
stop that was asked for is exit code 0.
"""

import asyncio
from collections.abc import Mapping, Sequence
from errno import EDQUOT, ENOSPC
from typing import TYPE_CHECKING, Any

import click

from moldau.cli.session import FILE, PORT, client_settings_options, log_level_option
from moldau.cli.up.services import (
    DEFAULT_CONNECT_PORT,
    DEFAULT_CONSOLE_PORT,
    DEFAULT_REGISTRY_PORT,
    DEFAULT_REST_PORT,
    UpOptions,
)

if TYPE_CHECKING:
    from moldau.cli.up.processes import Processes, Service, ServiceFailed

#: A connection to a process that dies breaks before the end of the process is noticed.
_DEATH_SECONDS = 2.0


@click.command()
@click.option("--port", type=PORT, help="Of the broker; default 9092, 0 is a free one.")
@click.option(
    "--brokers",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    metavar="N",
    help="A cluster of N brokers, on ports that follow each other; one that dies is started again.",
)
@click.option(
    "--zookeeper",
    metavar="HOST:PORT/CHROOT",
    help="The ZooKeeper that keeps the cluster's metadata ('moldau zookeeper' starts one); default: files.",
)
@click.option(
    "--registry-port",
    type=PORT,
    help=f"Of the schema registry; default {DEFAULT_REGISTRY_PORT}, 0 is a free one.",
)
@click.option(
    "--rest-port",
    type=PORT,
    help=f"Of the REST proxy; default {DEFAULT_REST_PORT}, or a free one where that is in use.",
)
@click.option(
    "--console-port",
    type=PORT,
    help=f"Of the web console; default {DEFAULT_CONSOLE_PORT} or the next free one, 0 is any.",
)
@click.option(
    "--metrics-port",
    type=PORT,
    help="Where the first broker shows metrics and health, the others follow; default a free one for each.",
)
@click.option("--host", help="The address to listen on; default 127.0.0.1, this machine only.")
@click.option(
    "--data-dir",
    "data_dirs",
    multiple=True,
    metavar="DIR",
    help="Where the data is; repeatable, the first holds metadata and logs. Default ./data.",
)
@click.option(
    "--config",
    "config_file",
    type=FILE,
    metavar="FILE",
    help="A Kafka server.properties file for the broker.",
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A broker setting; repeatable.")
@client_settings_options
@click.option(
    "--no-registry",
    "with_registry",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Start no schema registry.",
)
@click.option("--rest/--no-rest", "with_rest", default=True, help="Start a REST proxy; by default it is.")
@click.option(
    "--no-console", "with_console", is_flag=True, flag_value=False, default=True, help="Start no web console."
)
@click.option("--connect", "with_connect", is_flag=True, help="Start a worker that runs connectors, too.")
@click.option(
    "--connect-port",
    type=PORT,
    help=f"Of its REST interface; default {DEFAULT_CONNECT_PORT} or the next free one, 0 is any.",
)
@click.option("--demo", is_flag=True, help="Produce a live stream, run a pipeline on Spark and show it all.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0.1, max=100_000),
    default=40.0,
    show_default=True,
    metavar="N",
    help="Clicks a second in the demo; orders are about a third of that.",
)
@click.option(
    "--seconds", type=click.FloatRange(min=0), metavar="N", help="End when it has been up for N seconds."
)
@log_level_option("info", "Of the broker's log file.")
def up(demo: bool, rate: float, seconds: float | None, **given: Any) -> None:
    """Start a broker, a schema registry, a REST proxy and a web console, until Ctrl-C, SIGTERM or the key q.

    With --demo there is more: a shop's orders and clicks are produced live, a pipeline on Spark enriches,
    joins and windows them, and the terminal shows rates, lag and results. Without a terminal it prints lines.

    \b
    Examples:
      moldau up
      moldau up --port 9092 --registry-port 8081 --data-dir ./data
      moldau up --config server.properties
      moldau up --brokers 3 --port 9092
      moldau up --connect
      moldau up --demo
      moldau up --demo --seconds 60
    """
    from moldau.cli.session import client_settings, client_settings_arguments, run

    given["with_connect"] |= given["connect_port"] is not None
    options = UpOptions(
        **given, client_arguments=client_settings_arguments(), client_settings=client_settings()
    )
    if demo:
        from moldau.cli.up.demo import demonstrate

        run(demonstrate(options, seconds, rate))
    else:
        run(_serve(options, seconds))


async def _serve(options: UpOptions, seconds: float | None) -> None:
    from moldau.base.clock import SystemClock
    from moldau.cli.up.processes import Processes, ServiceFailed
    from moldau.cli.up.terminal import stop_signal

    clock = SystemClock()
    began = clock.monotonic()
    make_directory(options)
    try:
        with stop_signal() as stop:
            async with Processes(options.log_directory) as processes:
                rows, restartable = await start_platform(options, processes)
                click.echo(f"moldau is up after {clock.monotonic() - began:.2f} s:")
                show_services(rows, processes)
                click.echo("Ctrl-C or q stops everything")
                await watched(processes, stop, seconds, restartable=restartable)
                click.echo("stopping")
    except ServiceFailed as failure:
        raise failure_message(failure) from failure
    click.echo("moldau stopped")


async def start_platform(
    options: UpOptions, processes: "Processes", *, allow_free_port: bool = False
) -> tuple[list[tuple[str, str, str]], "dict[str, Service]"]:
    """Starts brokers and services: rows of service, address and log file, and what is started again."""
    from moldau.cli.up.services import broker_service, cluster_services, local_address

    if options.brokers > 1:
        services = cluster_services(options)
        # All at once: the first one to be the controller lets the others in.
        for each in services:
            await processes.launch(each)
        found = [await processes.ready(each.name) for each in services]
    else:
        services = [broker_service(options, allow_free_port=allow_free_port)]
        found = [await processes.start(services[0])]
    addresses = [local_address(match[1]) for match in found]
    rows = [
        (each.name, address, str(processes.log_of(each.name)))
        for each, address in zip(services, addresses, strict=True)
    ]
    rows += [
        (f"{each.name} metrics", match[2], "")
        for each, match in zip(services, found, strict=True)
        if match[2] is not None
    ]
    restartable = {each.name: each for each in services} if options.brokers > 1 else {}
    more, console = await _start_services(options, processes, ",".join(addresses), allow_free_port)
    if console is not None:
        restartable["console"] = console
    return rows + more, restartable


async def _start_services(
    options: UpOptions, processes: "Processes", servers: str, allow_free_port: bool
) -> "tuple[list[tuple[str, str, str]], Service | None]":
    """The registry, and the REST proxy and the console that ask it, all at once where its URL is known
    before.
    """
    from moldau.cli.up.services import (
        connect_service,
        console_service,
        planned_url,
        registry_service,
        rest_service,
        why_no_connect,
        why_no_console,
        why_no_registry,
        why_no_rest,
    )

    reasons = {
        "registry": why_no_registry(options),
        "rest": why_no_rest(options),
        "console": why_no_console(options),
    }
    if options.with_connect:
        reasons["connect"] = why_no_connect()
    url, console = None, None
    if reasons["registry"] is None:
        registry = registry_service(options, servers, allow_free_port=allow_free_port)
        await processes.launch(registry)
        url = planned_url(registry) or (await processes.ready("registry"))[1]
    if reasons["rest"] is None:
        await processes.launch(rest_service(options, servers, url))
    if reasons["console"] is None:
        console = console_service(options, servers, url)
        await processes.launch(console)
    if reasons.get("connect", "left out") is None:
        await processes.launch(connect_service(options, servers))
    rows = []
    for name, reason in reasons.items():
        where = (await processes.ready(name))[1] if reason is None else ""
        rows.append((name, where, reason or str(processes.log_of(name))))
    return rows, console


def show_services(rows: list[tuple[str, str, str]], processes: "Processes") -> None:
    from moldau.cli.output import note, print_table

    print_table(["service", "where", "log"], rows)
    for problem in processes.log_problems():
        note(f"{problem}. Next: make room, or choose another --data-dir")


async def watched(
    processes: "Processes",
    stop: asyncio.Event,
    seconds: float | None,
    watching: Sequence[asyncio.Task[None]] = (),
    *,
    restartable: "Mapping[str, Service] | None" = None,
) -> None:
    """Waits until it is stopped or the time is over; raises ``ServiceFailed`` when a service ends before.

    ``watching`` are tasks that talk to the services. When one fails its error is raised, unless a service
    died at the same time: that is the cause.
    """
    from moldau.cli.up.terminal import until

    death = asyncio.create_task(processes.first_fatal_death(restartable or {}, click.echo))
    stopped = asyncio.create_task(until(stop, seconds))
    try:
        await asyncio.wait({death, stopped, *watching}, return_when=asyncio.FIRST_COMPLETED)
        failed = [task for task in watching if task.done()]  # they end only by failing
        if failed and not death.done():
            await asyncio.wait({death}, timeout=_DEATH_SECONDS)
        if death.done() and not (stopped.done() and stop.is_set()):
            raise death.result()
        for task in failed:
            task.result()
    finally:
        death.cancel()
        stopped.cancel()


def make_directory(options: UpOptions) -> None:
    try:
        options.log_directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.ClickException(
            f"{options.directory} cannot be used: {error.strerror}. Next: "
            f"{'make room, or ' if error.errno in (ENOSPC, EDQUOT) else ''}choose another --data-dir"
        ) from error


def failure_message(failure: "ServiceFailed") -> click.ClickException:
    """Why a service died: its own error message, or its last lines."""
    errors = [line.removeprefix("Error: ") for line in failure.lines if line.startswith("Error: ")]
    if errors:
        return click.ClickException(f"{failure}: {errors[-1]}")
    lines = "".join(f"\n  {line}" for line in failure.lines)
    return click.ClickException(f"{failure}. Its last lines, from {failure.log}:{lines or ' none'}")
