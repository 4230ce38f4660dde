"""``moldau up --demo``: broker, registry, a producer, a pipeline on Spark, and a view of all of them.

Invariant: requirements are checked before anything starts. The producer is stopped first; when the time given
with ``--seconds`` is over, the pipeline then reads everything that was produced, so that the summary shows
complete results. A service that dies ends the demo with exit code 1 and its last lines.
"""

import asyncio
import sys
from importlib.util import find_spec

import click

from moldau.base.clock import SystemClock
from moldau.cli.commands.services.up import (
    failure_message,
    make_directory,
    show_services,
    start_platform,
    watched,
)
from moldau.cli.output import console, note
from moldau.cli.reports.live_view import DemoSnapshot, first_result, plain_line, render, summary
from moldau.cli.session import client_settings, cluster_options
from moldau.cli.up.memory import memory_bytes, memory_note, spark_heap
from moldau.cli.up.processes import Processes, Service, ServiceFailed
from moldau.cli.up.services import UpOptions, why_no_registry
from moldau.cli.up.terminal import stop_signal
from moldau.cli.up.watch import Watch
from moldau.client.transport.cluster import Cluster

_REFRESH_SECONDS = 0.5
#: How often a line is printed where there is no terminal.
_LINE_SECONDS = 5.0
#: How long the pipeline may take to catch up at the end; on two busy cores a batch takes seconds.
_CATCH_UP_SECONDS = 180.0
#: Spark starts in seconds on an idle machine, but may take minutes on a busy one.
_PIPELINE_START_SECONDS = 240.0
_SPARK_MODULES = ("pyspark", "pyarrow")


async def demonstrate(options: UpOptions, seconds: float | None, clicks_per_second: float) -> None:
    """Runs the demo until it is stopped, or until its stream has run for so many seconds."""
    check_requirements(options)
    memory = memory_bytes()
    remark = memory_note(memory)
    if remark is not None:
        note(remark)
    make_directory(options)
    security = cluster_options(client_settings(), "moldau-up")
    clock = SystemClock()
    began = clock.monotonic()
    try:
        with stop_signal() as stop:
            async with Processes(options.log_directory) as processes:
                click.echo("starting the broker, the schema registry and the console")
                rows, restartable = await start_platform(options, processes, allow_free_port=True)
                where = {name: place for name, place, _ in rows}
                address, registry = rows[0][1], where["registry"]
                async with await Cluster.open(address, **security) as cluster:
                    places = (("broker", address), ("registry", registry), ("console", where["console"]))
                    watch = Watch(cluster, clock, began, tuple(each for each in places if each[1]))
                    await watch.mark_start()
                    click.echo(
                        "starting the producer and, on Spark, the pipeline; first results take a while"
                    )
                    await processes.start(producer_service(options, address, registry, clicks_per_second))
                    await processes.launch(pipeline_service(options, address, registry, spark_heap(memory)))
                    rows += [(name, "", str(processes.log_of(name))) for name in ("producer", "pipeline")]
                    show_services(rows, processes)
                    await _Demo(watch, processes, clock, restartable).run(stop, seconds)
    except ServiceFailed as failure:
        raise failure_message(failure) from failure
    click.echo("moldau stopped")


def check_requirements(options: UpOptions) -> None:
    """One sentence about what is missing: the extras, the registry, Java."""
    if any(find_spec(name) is None for name in _SPARK_MODULES):
        raise click.ClickException("the demo needs Spark. Next: pip install 'moldau[spark,registry]'")
    reason = why_no_registry(options)
    if reason is not None:
        raise click.ClickException(f"the demo needs the schema registry, and it is {reason}")
    from moldau.spark.session.java import JavaNotFound, find_java

    try:
        find_java()
    except JavaNotFound as error:
        raise click.ClickException(str(error)) from error


def producer_service(options: UpOptions, address: str, registry: str, clicks_per_second: float) -> Service:
    command = (
        *(sys.executable, "-m", "moldau.pipelines.demo.producer", "--bootstrap-servers", address),
        *("--registry", registry, "--clicks-per-second", str(clicks_per_second)),
        *options.client_arguments,
    )
    return Service("producer", command, "moldau demo producer ready")


def pipeline_service(options: UpOptions, address: str, registry: str, heap: str) -> Service:
    module = "moldau.pipelines.demo.runner"
    directory = str(options.directory.absolute() / "demo")
    arguments = (
        *("--bootstrap-servers", address, "--home", directory, "--heap", heap),
        *options.client_arguments,
    )
    return Service(
        "pipeline",
        (sys.executable, "-m", module, *arguments),
        "moldau demo pipeline ready",
        {"MOLDAU_SCHEMA_REGISTRY_URL": registry},
        stop_seconds=60.0,
        start_seconds=_PIPELINE_START_SECONDS,
    )


class _Demo:
    """The demo from the start of its services to the summary."""

    def __init__(
        self, watch: Watch, processes: Processes, clock: SystemClock, restartable: dict[str, Service]
    ) -> None:
        self._watch = watch
        self._processes = processes
        self._clock = clock
        self._restartable = restartable
        self._notes: tuple[str, ...] = ()
        self._snapshot = DemoSnapshot(0.0)
        self._screen = console()

    async def run(self, stop: asyncio.Event, seconds: float | None) -> None:
        watching = [asyncio.create_task(each) for each in (self._show(), *self._watch.readers())]
        try:
            await watched(self._processes, stop, seconds, watching, restartable=self._restartable)
            await self._processes.stop("producer")
            if not stop.is_set():
                await self._catch_up(stop, watching)
            self._snapshot = await self._watch.look(self._notes)
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
        for line in summary(self._snapshot):
            click.echo(line)

    async def _catch_up(self, stop: asyncio.Event, watching: list[asyncio.Task[None]]) -> None:
        """Waits until the queries have read everything that was produced."""
        self._note("the producer has stopped; the pipeline reads the rest")
        deadline = self._clock.monotonic() + _CATCH_UP_SECONDS
        while not await self._watch.caught_up():
            left = deadline - self._clock.monotonic()
            if left <= 0 or stop.is_set():
                self._note("the pipeline has not read everything that was produced: results are not whole")
                return
            await watched(self._processes, stop, min(_REFRESH_SECONDS, left), watching)
        self._notes = ()

    def _note(self, note: str) -> None:
        """Shows a note in the view, or prints it where there is no terminal."""
        self._notes = (note,)
        if not self._screen.is_terminal:
            click.echo(note)

    async def _show(self) -> None:
        if not self._screen.is_terminal:
            await self._print_lines()
            return
        from rich.live import Live

        with Live(console=self._screen, auto_refresh=False, screen=True) as live:
            while True:
                self._snapshot = await self._watch.look(self._notes)
                live.update(render(self._snapshot), refresh=True)
                await asyncio.sleep(_REFRESH_SECONDS)

    async def _print_lines(self) -> None:
        """Prints a line every few seconds, and one at once when the first result arrives."""
        showed_first = False
        while True:
            self._snapshot = await self._watch.look(self._notes)
            click.echo(plain_line(self._snapshot))
            if not showed_first and self._snapshot.first_result_seconds is not None:
                showed_first = True
                click.echo(first_result(self._snapshot))
            await _pause(_LINE_SECONDS, None if showed_first else self._watch.first_result)


async def _pause(seconds: float, unless: asyncio.Event | None) -> None:
    if unless is None:
        await asyncio.sleep(seconds)
        return
    try:
        async with asyncio.timeout(seconds):
            await unless.wait()
    except TimeoutError:
        return
