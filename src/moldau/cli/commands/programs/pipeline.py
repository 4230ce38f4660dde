"""``moldau pipeline``: write, run, watch and stop data pipelines on Spark.

Invariant: only ``run`` starts Spark; the others read what a pipeline has written about itself. A pipeline is
killed only with ``--force``.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moldau.cli.commands.programs.pipeline_run import home_option, run
from moldau.cli.output import note, print_json, print_table
from moldau.cli.running import PIPELINE, log_options, print_log, state_of, stop_options, stop_run
from moldau.cli.session import json_option

if TYPE_CHECKING:
    from moldau.pipelines.directory import PipelineDirectory, PipelineState
    from moldau.spark.query.progress import QueryStatus


@click.group()
def pipeline() -> None:
    """Write, run, watch and stop data pipelines on Spark.

    \b
    Examples:
      moldau pipeline init revenue
      moldau pipeline run revenue.py --dry-run
      moldau pipeline run revenue.py --detach
      moldau pipeline status revenue
      moldau pipeline stop revenue
    """


pipeline.add_command(run)


@pipeline.command()
@click.argument("name")
@click.option("--sql", is_flag=True, help="Write a file of SQL instead of Python.")
def init(name: str, sql: bool) -> None:
    """Write a commented example to NAME.py, or to NAME.sql.

    \b
    Examples:
      moldau pipeline init revenue
      moldau pipeline init revenue --sql
    """
    from moldau.pipelines.definitions import check_name
    from moldau.pipelines.errors import PipelineError
    from moldau.pipelines.templates import example

    try:
        check_name(name)
    except PipelineError as error:
        raise click.UsageError(str(error)) from error
    path = Path(f"{name}.{'sql' if sql else 'py'}")
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(example(name, sql=sql))
    except FileExistsError:
        raise click.ClickException(f"{path} is there already: choose another name, or remove it") from None
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror}") from error
    click.echo(f"{path} is written. Next: moldau pipeline run {path} --dry-run")


@pipeline.command("list")
@json_option
@home_option
def list_pipelines(as_json: bool, home: str | None) -> None:
    """Show every pipeline that was run on this machine.

    \b
    Examples:
      moldau pipeline list
      moldau pipeline list --json
    """
    from moldau.pipelines.directory import home_directory, known_pipelines

    found = known_pipelines(home_directory(home))
    if as_json:
        print_json([state.to_json() for state in found])
    elif found:
        columns = ["name", "state", "queries>", "rows/s>", "lag>", "started", "file"]
        print_table(columns, [listed(state) for state in found])
    else:
        note("no pipeline was run yet: 'moldau pipeline init NAME' writes one")


@pipeline.command()
@click.argument("name")
@json_option
@home_option
def status(name: str, as_json: bool, home: str | None) -> None:
    """Show the queries of a pipeline: rates, lag, last batch, last error.

    \b
    Examples:
      moldau pipeline status revenue
      moldau pipeline status revenue --json
    """
    _, state = _known(name, home)
    if as_json:
        print_json(state.to_json())
        return
    print_table(QUERY_COLUMNS, [query_row(query) for query in state.queries], title=headline(state))
    for line in remarks(state):
        click.echo(line)


@pipeline.command()
@click.argument("name")
@stop_options
@home_option
def stop(name: str, timeout_seconds: float, force: bool, home: str | None) -> None:
    """End a pipeline: its queries finish the batch that they are at.

    \b
    Examples:
      moldau pipeline stop revenue
      moldau pipeline stop revenue --timeout 10 --force
    """
    directory, state = _known(name, home)
    stop_run(PIPELINE, directory, state, timeout_seconds, force)


@pipeline.command()
@click.argument("name")
@log_options
@home_option
def logs(name: str, follow: bool, lines: int, home: str | None) -> None:
    """Print what a pipeline and its Spark have said.

    \b
    Examples:
      moldau pipeline logs revenue
      moldau pipeline logs revenue --follow
    """
    directory, _ = _known(name, home)
    print_log(PIPELINE, directory, follow, lines)


def _known(name: str, home: str | None) -> "tuple[PipelineDirectory, PipelineState]":
    from moldau.pipelines.directory import PipelineDirectory, home_directory
    from moldau.pipelines.errors import PipelineError

    try:
        directory = PipelineDirectory(home_directory(home), name)
        return directory, state_of(PIPELINE, directory)
    except PipelineError as error:
        raise click.ClickException(str(error)) from error


# Rows.

QUERY_COLUMNS = [
    "query",
    "state",
    "batch>",
    "rows>",
    "rows/s in>",
    "rows/s out>",
    "lag>",
    "batch ms>",
    "late>",
]


def headline(state: "PipelineState") -> str:
    """A pipeline in one line."""
    process = f", process {state.pid}" if state.state in ("starting", "running") else ""
    return f"{state.name}: {state.state}{process}, {state.master}, cluster {state.bootstrap_servers}"


def query_row(query: "QueryStatus") -> Sequence[object]:
    """A query as a row; a dash for what is not known."""
    return (
        query.name,
        query.state,
        query.batch_id if query.batch_id >= 0 else "-",
        query.rows,
        _rate(query.input_rows_per_second),
        _rate(query.processed_rows_per_second),
        "-" if query.total_lag is None else query.total_lag,
        "-" if query.batch_duration_ms is None else query.batch_duration_ms,
        query.late_rows,
    )


def listed(state: "PipelineState") -> Sequence[Any]:
    """A pipeline as a row of the list."""
    lags = [query.total_lag for query in state.queries if query.total_lag is not None]
    running = [query for query in state.queries if not query.ended and state.state == "running"]
    rate = sum(query.input_rows_per_second or 0.0 for query in running)
    return (
        state.name,
        state.state,
        len(state.queries),
        _rate(rate) if running else "-",
        sum(lags) if lags else "-",
        state.started.replace("+00:00", "Z"),
        state.file,
    )


def remarks(state: "PipelineState") -> list[str]:
    """Lines below the table: where results go, what went wrong, what to do."""
    found = [f"{step} is written to {output}" for step, output in (state.outputs or {}).items()]
    found += [f"{query.name} failed: {query.error}" for query in state.queries if query.error]
    if state.error and not any(query.error for query in state.queries):
        found.append(f"last error: {state.error}")
    if state.state == "died":
        found.append(
            f"its process is gone and has not said why: 'moldau pipeline logs {state.name}' shows more"
        )
    return found


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
