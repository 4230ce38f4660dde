"""``moldau streams diff``: two versions of a program over the same records of real topics."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moldau.cli.commands.programs.streams_run import home_option
from moldau.cli.output import note, print_json, print_table
from moldau.cli.session import connected, connection_options, json_option

if TYPE_CHECKING:
    from moldau.client.transport.cluster import Cluster
    from moldau.streams import Topology
    from moldau.streams.versions import TopicDifference

_LENGTH = re.compile(r"(\d+)\s*(s|m|h|d)")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SHOWN = 10


@click.command(short_help="Compare the results of two versions over the same records.")
@click.argument("old", metavar="V1")
@click.argument("new", metavar="V2")
@click.option(
    "--last", default="10m", show_default=True, metavar="TIME", help="Records of so long: 30s, 10m, 2h, 1d."
)
@home_option
@json_option
@connection_options
def diff(old: str, new: str, last: str, home: str | None, as_json: bool) -> None:
    """Run V1 and V2 over the last records of their input topics, and compare what they give.

    Each of them is a file, or the name of an application that was run. Both begin with empty state at the
    first of these records, in this process and without Spark; nothing is written. Results are compared by
    topic and key, in order. Ends with 1 where they differ.

    \b
    Examples:
      moldau streams diff word_count.py word_count_2.py
      moldau streams diff word_count word_count_2.py --last 1h -b broker1:9092
    """
    length = _LENGTH.fullmatch(last.strip())
    if length is None:
        raise click.UsageError(f"--last {last}: write a length of time such as 30s, 10m, 2h or 1d")
    topologies = _loaded(old, home), _loaded(new, home)

    async def work(cluster: "Cluster") -> "tuple[int, tuple[TopicDifference, ...]]":
        from moldau.base.clock import SystemClock
        from moldau.streams.versions import compare, records_since, source_topics

        topics = sorted({topic for each in topologies for topic in source_topics(each)})
        since = SystemClock().now_ms() - int(length[1]) * _UNIT_MS[length[2]]
        records = await records_since(cluster, topics, since)
        return len(records), compare(*topologies, records)

    count, found = connected(work)
    _show(count, found, as_json=as_json)
    if any(each.differences for each in found):
        raise click.exceptions.Exit(1)


def _loaded(name: str, home: str | None) -> "Topology":
    from moldau.streams.errors import TopologyError
    from moldau.streams.files import ProgramError, load_topology

    try:
        return load_topology(name if Path(name).is_file() else _file_of(name, home))
    except (ProgramError, TopologyError) as error:
        raise click.ClickException(str(error)) from error


def _file_of(name: str, home: str | None) -> str:
    """The file of an application that was run."""
    from moldau.pipelines.directory import PipelineDirectory
    from moldau.pipelines.errors import PipelineError
    from moldau.streams.runner.running import streams_home

    try:
        state = PipelineDirectory(streams_home(home), name).state()
    except PipelineError as error:
        raise click.ClickException(str(error)) from error
    if state is None:
        raise click.ClickException(f"{name} is no file, and no application of that name was run here")
    return state.file


def _show(count: int, found: "tuple[TopicDifference, ...]", *, as_json: bool) -> None:
    if as_json:
        print_json({"records": count, "topics": [_as_json(each) for each in found]})
        return
    rows = [(each.topic, each.same, each.only_old, each.only_new) for each in found]
    print_table(["topic", "same>", "only V1>", "only V2>"], rows, title=f"{count} records")
    for topic in found:
        for each in topic.differences[:_SHOWN]:
            before = f" after {each.after} equal ones" if each.after else ""
            click.echo(f"{topic.topic}: key {each.key!r}{before}: {each.old!r} becomes {each.new!r}")
        if len(topic.differences) > _SHOWN:
            click.echo(f"{topic.topic}: {len(topic.differences) - _SHOWN} more keys differ")
    if not any(each.differences for each in found):
        note("both versions give the same")


def _as_json(topic: "TopicDifference") -> dict[str, Any]:
    return {
        "topic": topic.topic,
        "same": topic.same,
        "only_old": topic.only_old,
        "only_new": topic.only_new,
        "differences": [
            {"key": repr(each.key), "after": each.after, "old": repr(each.old), "new": repr(each.new)}
            for each in topic.differences
        ],
    }
