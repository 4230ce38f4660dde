"""``moldau streams``: programs for stream processing.

Invariant: ``plan`` needs neither a cluster nor Spark: it loads the program and shows what it would be. Only
``run`` starts Spark; the others read what an application has written about itself, and ask the cluster.
"""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moldau.cli.commands.programs.streams_diff import diff
from moldau.cli.commands.programs.streams_run import home_option, one_line, run
from moldau.cli.commands.programs.streams_switch import switch
from moldau.cli.output import note, print_json, print_table
from moldau.cli.running import (
    APPLICATION,
    log_options,
    print_log,
    state_of,
    stop_options,
    stop_run,
)
from moldau.cli.session import json_option, pairs, servers_option

if TYPE_CHECKING:
    from moldau.pipelines.directory import PipelineDirectory, PipelineState


@click.group()
def streams() -> None:
    """Programs for stream processing.

    \b
    Examples:
      moldau streams plan word_count.py
      moldau streams plan word_count.py --svg word_count.svg
      moldau streams plan word_count.py --describe
      moldau streams run word_count.py --detach
      moldau streams status word_count
      moldau streams why word_count
      moldau streams diff word_count.py word_count_2.py --last 10m
      moldau streams switch word_count word_count_2.py
      moldau streams reset word_count --bootstrap-servers localhost:9092
    """


streams.add_command(run)
streams.add_command(diff)
streams.add_command(switch)


@streams.command()
@click.argument("file", metavar="FILE")
@click.option("--svg", metavar="FILE", help="Write the picture to a file as well.")
@click.option("--describe", is_flag=True, help="Print the text of Kafka's Topology.describe() instead.")
@click.option(
    "--partitions",
    multiple=True,
    metavar="TOPIC=N",
    help="How many partitions a topic has, to check joins; may be given several times.",
)
def plan(file: str, svg: str | None, describe: bool, partitions: tuple[str, ...]) -> None:
    """Draw the topology of FILE, and say what is missing in it.

    FILE is Python with topology = builder.build(), with builder = StreamsBuilder(), or with def build().

    \b
    Examples:
      moldau streams plan examples/streams/word_count.py
      moldau streams plan clicks.py --partitions clicks=6 --partitions profiles=3
    """
    from moldau.streams.errors import TopologyError
    from moldau.streams.files import ProgramError, load_topology
    from moldau.streams.topology.advice import advise
    from moldau.streams.topology.pictures import svg_picture, text_picture

    counts = _counts(partitions)
    try:
        topology = load_topology(file)
    except (ProgramError, TopologyError) as error:
        raise click.ClickException(str(error)) from error
    if describe:
        click.echo(topology.describe(), nl=False)
    else:
        for line in text_picture(topology):
            click.echo(line)
    if svg is not None:
        try:
            Path(svg).write_text(svg_picture(topology), encoding="utf-8")
        except OSError as error:
            raise click.ClickException(f"{svg} cannot be written: {error.strerror}") from error
        note(f"{svg} is written")
    advice = advise(topology, counts)
    for each in advice:
        note(f"{each.kind}: {each.problem}: {each.fix}")
    if any(each.kind == "error" for each in advice):
        raise click.exceptions.Exit(1)


def _counts(partitions: tuple[str, ...]) -> dict[str, int] | None:
    counts: dict[str, int] = {}
    for each in partitions:
        topic, _, count = each.partition("=")
        if not topic or not count.isdigit():
            raise click.UsageError(f"--partitions {each}: write TOPIC=N, such as clicks=6")
        counts[topic] = int(count)
    return counts or None


# --- applications that were run -------------------------------------------------------------------


@streams.command("list")
@json_option
@home_option
def list_applications(as_json: bool, home: str | None) -> None:
    """Show every application that was run on this machine.

    \b
    Examples:
      moldau streams list
      moldau streams list --json
    """
    with one_line():
        from moldau.pipelines.directory import known_pipelines
        from moldau.streams.runner.running import streams_home

        found = known_pipelines(streams_home(home))
        if as_json:
            print_json([state.to_json() for state in found])
        elif found:
            rows = [_listed(state) for state in found]
            print_table(["application", "state", "batch>", "records>", "lag>", "started", "file"], rows)
        else:
            note("no application was run yet: 'moldau streams run FILE' runs one")


@streams.command()
@click.argument("name")
@json_option
@home_option
def status(name: str, as_json: bool, home: str | None) -> None:
    """Show how an application is doing: records in and out, rates, lag, latency, dropped records.

    \b
    Examples:
      moldau streams status word_count
      moldau streams status word_count --json
    """
    with one_line():
        directory, state = _known(name, home)
        progress = _progress(directory)
        if as_json:
            print_json({**state.to_json(), "progress": progress})
            return
        query = state.queries[0] if state.queries else None
        process = f", process {state.pid}" if state.state in ("starting", "running") else ""
        lag = "-" if query is None or query.total_lag is None else query.total_lag
        rate = "-" if query is None else query.processed_rows_per_second or "-"
        seconds = float(progress.get("batch_seconds", 0))
        latency = progress.get("latency_ms")
        rows = [
            ("records in", progress.get("records_in", 0)),
            ("records out", progress.get("records_out", 0)),
            ("records a second, last batch", rate),
            ("last batch", f"{progress.get('batch_id', '-')}, {round(seconds * 1000)} ms"),
            ("latency, last batch", "-" if latency is None else f"{latency} ms"),
            ("rows of stores changed", progress.get("rows_changed", 0)),
            ("lag", lag),
            ("dropped records", progress.get("dropped", 0)),
            *((f"  {reason}", count) for reason, count in progress.get("reasons", {}).items()),
            ("dead letters", progress.get("dead_letters", 0)),
        ]
        print_table(
            ["", "since the run began>"],
            rows,
            title=f"{name}: {state.state}{process}, {state.master}, cluster {state.bootstrap_servers}",
        )
        for topic, waiting in (query.lag[0] if query is not None and query.lag else {}).items():
            click.echo(f"{topic}: {waiting} records wait")
        for step, output in (state.outputs or {}).items():
            click.echo(f"{step} go to {output}")
        if state.error:
            click.echo(f"last error: {state.error}")


@streams.command()
@click.argument("name")
@home_option
def why(name: str, home: str | None) -> None:
    """Say why an application is slow, behind or gone, and what to do.

    \b
    Examples:
      moldau streams why word_count
    """
    with one_line():
        from moldau.streams.runner.why import reasons

        directory, state = _known(name, home)
        progress = _progress(directory)
        places = len(progress.get("positions", {})) or 1
        found = list(reasons(state, progress, places, os.cpu_count() or 1))
        for sentence in found or ["nothing is wrong that its numbers would show"]:
            click.echo(sentence)


@streams.command()
@click.argument("name")
@stop_options
@home_option
def stop(name: str, timeout_seconds: float, force: bool, home: str | None) -> None:
    """End an application that runs on this machine.

    \b
    Examples:
      moldau streams stop word_count
      moldau streams stop word_count --timeout 10 --force
    """
    with one_line():
        directory, state = _known(name, home)
        stop_run(APPLICATION, directory, state, timeout_seconds, force)


@streams.command()
@click.argument("name")
@log_options
@home_option
def logs(name: str, follow: bool, lines: int, home: str | None) -> None:
    """Print what an application and its Spark have said.

    \b
    Examples:
      moldau streams logs word_count
      moldau streams logs word_count --follow
    """
    with one_line():
        directory, _ = _known(name, home)
        print_log(APPLICATION, directory, follow, lines)


@streams.command()
@click.argument("name")
@servers_option
@click.option(
    "--topic", "topics", multiple=True, help="An input topic that goes back to its start; repeatable."
)
@click.option("--execute", is_flag=True, help="Do it; without this, show what would be done.")
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="For TLS and SASL; repeatable.")
@home_option
def reset(
    name: str,
    bootstrap_server: str,
    topics: tuple[str, ...],
    execute: bool,
    options: tuple[str, ...],
    home: str | None,
) -> None:
    """Let an application begin anew: its group goes back to the start, its topics and its state go.

    Shows what would be done; --execute does it. Results that were written stay.

    \b
    Examples:
      moldau streams reset word_count
      moldau streams reset word_count --topic text-lines --execute
    """
    with one_line():
        from moldau.pipelines.directory import PipelineDirectory
        from moldau.spark.background_loop import connect
        from moldau.streams.runner.application import StreamsOptions
        from moldau.streams.runner.resets import carry_out, planned
        from moldau.streams.runner.running import streams_home

        directory = PipelineDirectory(streams_home(home), name)
        if directory.is_running():
            raise click.ClickException(f"application {name} runs: 'moldau streams stop {name}' ends it")
        loop = connect(StreamsOptions(bootstrap_server, pairs(options, "--option")).cluster)
        plan = loop.run(planned(loop.cluster, name, list(topics)))
        rows = [(str(tp), "-" if old is None else old, new) for tp, (old, new) in plan.offsets.items()]
        print_table(["partition", "offset>", "new offset>"], rows, title=f"group {name}")
        for topic in plan.deleted_topics:
            click.echo(f"{'delete' if execute else 'would delete'} topic {topic}")
        click.echo(f"{'forget' if execute else 'would forget'} the checkpoint in {directory.path}")
        if not execute:
            note("nothing was changed; --execute does it")
            return
        loop.run(carry_out(loop.cluster, plan))
        if directory.path.is_dir():
            with directory.running():
                directory.forget_checkpoints()
        click.echo(f"application {name} begins anew with its next run")


def _known(name: str, home: str | None) -> "tuple[PipelineDirectory, PipelineState]":
    from moldau.pipelines.directory import PipelineDirectory
    from moldau.streams.runner.running import streams_home

    directory = PipelineDirectory(streams_home(home), name)
    return directory, state_of(APPLICATION, directory)


def _progress(directory: "PipelineDirectory") -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((directory.path / "progress.json").read_text())
        return found
    except (FileNotFoundError, ValueError):
        return {}


def _listed(state: "PipelineState") -> tuple[Any, ...]:
    query = state.queries[0] if state.queries else None
    lag = "-" if query is None or query.total_lag is None else query.total_lag
    return (
        state.name,
        state.state,
        "-" if query is None or query.batch_id < 0 else query.batch_id,
        0 if query is None else query.rows,
        lag,
        state.started.replace("+00:00", "Z"),
        state.file,
    )
