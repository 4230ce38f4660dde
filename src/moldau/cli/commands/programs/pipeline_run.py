"""``moldau pipeline run``: runs a pipeline in the foreground, in the background, or as a dry run.

Invariant: every failure ends as one line with what to do next; ``--verbose`` adds the traceback. Ctrl-C and
SIGTERM stop the queries after their batch; a second one stops them at once.
"""

import os
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moldau.cli.output import console, note, print_table
from moldau.cli.running import APPLICATION, PIPELINE, child_command, run_options, start, until_asked
from moldau.cli.session import needs, pairs

if TYPE_CHECKING:
    from moldau.pipelines.declarative import DeclaredPipeline
    from moldau.pipelines.definitions import Pipeline
    from moldau.pipelines.directory import PipelineDirectory
    from moldau.pipelines.running import RunningPipeline, RunOptions

#: How often a line about each query is printed where there is no terminal.
_PLAIN_SECONDS = 10.0

home_option = click.option(
    "--home",
    envvar="MOLDAU_HOME",
    metavar="DIRECTORY",
    show_envvar=True,
    help="Where pipelines keep checkpoints, logs and tables [default: ~/.moldau/pipelines].",
)


@click.command(short_help="Run a pipeline.")
@click.argument("file", metavar="FILE|NAME")
@run_options
@click.option("--name", metavar="NAME", help="Another name than the file's.")
@click.option(
    "--dry-run", is_flag=True, help="Show plan, columns and rows for the last records; write nothing."
)
@click.option(
    "--records",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="How many last records of each topic a dry run reads.",
)
@click.option("--from-scratch", is_flag=True, help="Forget the checkpoints of this pipeline first.")
@click.option("--verbose", is_flag=True, help="Show the whole trace of an error.")
@home_option
def run(file: str, verbose: bool, dry_run: bool, detach: bool, **given: Any) -> None:
    """Run the pipeline of a FILE of Python or SQL, or the one that was run before as NAME.

    FILE may be a program of 'moldau streams' too, or the spec of a Spark Declarative Pipeline (.yml), or a
    directory with spark-pipeline.yml.

    \b
    Examples:
      moldau pipeline run revenue.py
      moldau pipeline run revenue.sql --dry-run --records 100
      moldau pipeline run revenue.py --detach --master spark://host:7077
      moldau pipeline run revenue --once
      moldau pipeline run shop/spark-pipeline.yml
    """
    if dry_run and detach:
        raise click.UsageError("--dry-run shows what it finds: leave --detach out")
    with _one_line(verbose):
        from moldau.pipelines.declarative import SUFFIXES, DeclaredPipeline, load_spec
        from moldau.pipelines.directory import PipelineDirectory, home_directory
        from moldau.pipelines.files import StreamsProgram, load

        home = home_directory(given["home"])
        path, name = find_file(file, home), given["name"] or _known_name(file, home)
        try:
            loaded = load_spec(path, name) if path.suffix in SUFFIXES else load(path, name)
        except StreamsProgram:
            _streams(path, name or path.stem, home, {**given, "dry_run": dry_run, "detach": detach})
            return
        options = _run_options(given, home)
        if isinstance(loaded, DeclaredPipeline):
            _check_declared_options(given)
        if detach:
            directory = PipelineDirectory(home, loaded.name)
            _detached(directory, child_command(PIPELINE, loaded.path, loaded.name, home, given))
        elif isinstance(loaded, DeclaredPipeline):
            _declared(loaded, options, dry_run)
        elif dry_run:
            _dry_run(loaded, options, given["records"])
        else:
            _foreground(loaded, options)


def find_file(given: str, home: Path) -> Path:
    """An existing path, NAME.py or NAME.sql, or the file that was run before under that name."""
    from moldau.pipelines.declarative import find_spec
    from moldau.pipelines.directory import PipelineDirectory
    from moldau.pipelines.errors import PipelineError

    path = Path(given)
    if (spec := find_spec(path)) is not None:
        return spec
    for candidate in (path, path.with_name(f"{path.name}.py"), path.with_name(f"{path.name}.sql")):
        if candidate.is_file():
            return candidate
    if path.suffix not in (".py", ".sql") and path.name == given:
        state = PipelineDirectory(home, given).state()
        if state is not None:
            return Path(state.file)
    stem = path.name.removesuffix(".py").removesuffix(".sql")
    raise PipelineError(f"there is no pipeline {given!r}: 'moldau pipeline init {stem}' writes one")


def _known_name(given: str, home: Path) -> str | None:
    """The name of a pipeline that was run before; None where a file is given."""
    from moldau.pipelines.declarative import find_spec
    from moldau.pipelines.directory import PipelineDirectory

    is_file = any(Path(f"{given}{suffix}").is_file() for suffix in ("", ".py", ".sql"))
    is_file = is_file or find_spec(Path(given)) is not None
    return None if is_file or os.sep in given or not PipelineDirectory(home, given).exists else given


def _run_options(given: dict[str, Any], home: Path) -> "RunOptions":
    from moldau.pipelines.running import RunOptions

    return RunOptions(
        given["bootstrap_server"],
        given["master"],
        home,
        pairs(given["options"], "--option"),
        pairs(given["conf"], "--conf"),
        given["once"],
        given["checkpoints"],
        given["from_scratch"],
        given["metrics_port"],
    )


@contextmanager
def _one_line(verbose: bool) -> Iterator[None]:
    """Turns errors into one line; with ``--verbose`` their traceback comes first."""
    with needs("a pipeline", "spark"):
        from moldau.pipelines.errors import PipelineError
        from moldau.spark.session.java import JavaNotFound

        try:
            yield
        except (PipelineError, JavaNotFound) as error:
            if verbose:
                traceback.print_exc()
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt:
            raise SystemExit(130) from None


# In the foreground.


def _foreground(pipeline: "Pipeline", options: "RunOptions") -> None:
    from moldau.pipelines.running import run as run_pipeline

    view = _View()
    note(f"starting Spark ({options.master or 'local[*]'}) for {pipeline.path.name}")
    says = "ending after the batch; once more ends at once"
    with until_asked(says, at_once=lambda: not view.running) as should_stop, view:
        ended = run_pipeline(pipeline, options, should_stop=should_stop, on_change=view.show)
    rows = sum(query.rows for query in ended)
    count = "1 query" if len(ended) == 1 else f"{len(ended)} queries"
    note(f"pipeline {pipeline.name} is over: {count}, {rows} rows read")


class _View:
    """Shows the queries while they run: a live table, or a few lines now and then without a terminal."""

    def __init__(self) -> None:
        self.running = False
        self._live: Any = None
        self._printed_at = 0.0
        self._console = console(stderr=True)

    def __enter__(self) -> "_View":
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, running: "RunningPipeline") -> None:
        if not self.running:
            self.running = True
            for step, output in (running.state.outputs or {}).items():
                note(f"{step} is written to {output}")
            if running.metrics is not None:
                note(f"metrics: http://127.0.0.1:{running.metrics.port}/metrics")
            if running.queries:
                note(f"pipeline {running.pipeline.name} runs; Ctrl-C ends it after its batch")
        if self._console.is_terminal:
            self._draw(running)
        elif time.monotonic() - self._printed_at > _PLAIN_SECONDS:
            self._printed_at = time.monotonic()
            for line in plain_lines(running):
                note(line)

    def _draw(self, running: "RunningPipeline") -> None:
        from rich.live import Live
        from rich.table import Table

        from moldau.cli.commands.programs.pipeline import QUERY_COLUMNS, query_row

        table = Table(box=None, pad_edge=False)
        for column in QUERY_COLUMNS:
            table.add_column(column.rstrip(">"), justify="right" if column.endswith(">") else "left")
        for status in running.statuses:
            table.add_row(*(str(cell) for cell in query_row(status)))
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(table, refresh=True)


def plain_lines(running: "RunningPipeline") -> list[str]:
    """One line about each query."""
    found = []
    for status in running.statuses:
        lag = "" if status.total_lag is None else f", lag {status.total_lag}"
        rate = "" if status.input_rows_per_second is None else f", {status.input_rows_per_second:.1f} rows/s"
        found.append(f"{status.name}: {status.state}, batch {status.batch_id}, {status.rows} rows{rate}{lag}")
    return found


# In the background.


def _detached(directory: "PipelineDirectory", command: list[str]) -> None:
    if directory.is_running():
        with directory.running():  # raises an error that names the process which runs it
            pass
    start(PIPELINE, directory, command)


# A program of streams: it runs as 'moldau streams run' runs it, in the home of pipelines.


def _streams(path: Path, name: str, home: Path, given: dict[str, Any]) -> None:
    from moldau.cli.commands.programs import streams_run
    from moldau.pipelines.directory import PipelineDirectory

    if given["dry_run"]:
        raise click.UsageError(f"a program of streams is tried with 'moldau streams diff {path} {path}'")
    if given["from_scratch"]:
        reset = f"moldau streams reset {name} --home {home}"
        raise click.UsageError(f"'{reset}' lets a program of streams begin anew")
    wanted = ("bootstrap_server", "master", "once", "conf", "options", "checkpoints", "metrics_port")
    options = {each: given[each] for each in wanted}
    if given["detach"]:
        command = child_command(APPLICATION, path, name, home, options)
        _detached(PipelineDirectory(home, name), command)
    else:
        context = click.get_current_context()
        context.invoke(streams_run.run, file=str(path), name=name, home=str(home), **options)


# Dry.


def _dry_run(pipeline: "Pipeline", options: "RunOptions", records: int) -> None:
    from moldau.pipelines.dry_run import preview
    from moldau.pipelines.running import open_session
    from moldau.pipelines.topics import Topics

    _ = Topics(options.cluster).loop  # reports an unreachable cluster before Spark takes seconds to start
    note(f"starting Spark for {pipeline.path.name}: the last {records} records of each topic")
    with open_session(pipeline.name, options, os.devnull) as spark:
        for found in preview(pipeline, options, spark, records=records):
            click.echo(f"\n{found.step}: would be written to {found.output}")
            click.echo(f"reads: {', '.join(found.topics) or 'no topic as a stream'}")
            print_table(["column", "type"], found.schema, title="columns")
            more = ", and there are more" if found.more else ""
            print_table([name for name, _ in found.schema], found.rows, title=f"rows{more}")
            click.echo(found.plan)
    note("\nnothing was written, nothing was committed")


# Declared: Spark reads the definitions and runs them.


def _declared(pipeline: "DeclaredPipeline", options: "RunOptions", dry_run: bool) -> None:
    from moldau.pipelines.declarative import check_declared, run_declared

    note(f"starting Spark ({options.master or 'local[*]'}) for {pipeline.path.name}")
    if dry_run:
        check_declared(pipeline, options, _note_flow)
        note("every flow is sound; nothing was read or written")
        return
    with until_asked("ending; what was begun is done again at the next start") as should_stop:
        run_declared(pipeline, options, should_stop=should_stop, on_event=_note_flow)
        end = "was stopped" if should_stop() else "has processed what was there"
    note(f"pipeline {pipeline.name} {end}")


def _note_flow(event: str) -> None:
    is_result = event.startswith(("Flow ", "Failed to resolve ", "Run "))
    if is_result and not event.endswith((" QUEUED.", " PLANNING.", " STARTING.")):
        note(event.replace("spark_catalog.default.", ""))


def _check_declared_options(given: dict[str, Any]) -> None:
    """Refuses options that ``spark-pipelines`` has no equivalent for, instead of ignoring them."""
    if given["options"]:
        raise click.UsageError("--option does not reach a declarative pipeline: write it into its files")
    if given["metrics_port"] is not None:
        raise click.UsageError("a declarative pipeline serves no metrics: leave --metrics-port out")
