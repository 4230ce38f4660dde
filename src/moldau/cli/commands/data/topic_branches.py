"""``moldau topics fork``, ``snapshot`` and ``restore``: copies of a topic as it was.

Invariant: a snapshot that could not be finished leaves no file behind.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from moldau.base.times import format_time, parse_time
from moldau.cli.output import echo, note, print_json, print_table, progress, size_text
from moldau.cli.session import cluster_command_options, connected, pairs

if TYPE_CHECKING:
    from rich.progress import Progress

    from moldau.client.snapshots.snapshots import SnapshotPartition
    from moldau.client.snapshots.time_travel import ForkedTopic
    from moldau.client.transport.cluster import Cluster

_CONFIG_HELP = "Change a config of the source; NAME= takes it away. Repeatable."


def configs_of(given: tuple[str, ...]) -> dict[str, str | None]:
    """Reads ``name=value``, which changes a config, and ``name=``, which removes it."""
    return {name: value or None for name, value in pairs(given, "--config").items()}


def time_of(text: str, option: str) -> int:
    from moldau.base.clock import SystemClock

    try:
        return parse_time(text.removeprefix("@"), SystemClock().now_ms())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def offsets_of(text: str, partition_count: int) -> dict[int, int]:
    """Reads ``42``, for every partition, or ``0:42,3:17``, for those that are named."""
    if text.isdecimal():
        return dict.fromkeys(range(partition_count), int(text))
    offsets: dict[int, int] = {}
    for part in text.split(","):
        index, colon, offset = part.strip().partition(":")
        if not (colon and index.isdecimal() and offset.isdecimal()) or int(index) in offsets:
            raise click.UsageError(f"--offset {text!r}: it is an offset, or PARTITION:OFFSET,…")
        offsets[int(index)] = int(offset)
    return offsets


@click.command("fork")
@click.argument("source")
@click.argument("new")
@click.option("--at", "timestamp", metavar="TIME", help="As it was then: 2026-01-31T12:00:00Z, '10m ago'.")
@click.option(
    "--offset", "offset", metavar="N or P:N,…", help="Up to an offset of all or of some partitions."
)
@click.option("-c", "--config", "configs", multiple=True, metavar="NAME=VALUE", help=_CONFIG_HELP)
@cluster_command_options
def fork(
    source: str, new: str, timestamp: str | None, offset: str | None, configs: tuple[str, ...], as_json: bool
) -> None:
    """Branch off a topic: NEW has the records of SOURCE, at the same offsets, and goes its own way.

    Sealed segments are shared on disk, so that it takes little time and room. The fork ends with what is
    committed; a transaction that it cuts in the middle is aborted in it. Give --config retention.ms=-1 if old
    records shall stay.

    \b
    Examples:
      moldau topics fork orders orders-test
      moldau topics fork orders orders-yesterday --at '1d ago' --config retention.ms=-1
      moldau topics fork orders orders-debug --offset 0:4711,1:4690
    """
    if timestamp is not None and offset is not None:
        raise click.UsageError("--at and --offset exclude each other")
    at = None if timestamp is None else time_of(timestamp, "--at")
    changes = configs_of(configs)

    async def work(cluster: "Cluster") -> dict[str, Any]:
        from moldau.client.snapshots.time_travel import fork_topic

        described = await cluster.topic(source)
        offsets = None if offset is None else offsets_of(offset, len(described.partitions))
        made = await fork_topic(cluster, source, new, timestamp_ms=at, offsets=offsets, configs=changes)
        return fork_object(source, made)

    result = connected(work)
    if as_json:
        print_json(result)
        return
    echo(f"Forked {source} as {new}")
    print_table(
        ["Partition>", "Begin>", "Cut at>", "End>", "Records>"],
        [
            [p["partition"], p["begin_offset"], p["cut_offset"], p["end_offset"], count(p)]
            for p in result["partitions"]
        ],
    )


def fork_object(source: str, made: "ForkedTopic") -> dict[str, Any]:
    from moldau.base.names import format_uuid

    return {
        "name": made.name,
        "source": source,
        "topic_id": format_uuid(made.topic_id),
        "partitions": [
            {
                "partition": each.partition,
                "begin_offset": each.log_start_offset,
                "cut_offset": each.cut_offset,
                "end_offset": each.log_end_offset,
            }
            for each in made.partitions
        ],
    }


def count(partition: dict[str, int]) -> int:
    """How many offsets came from the source; the transaction markers after the cut are no records."""
    return partition["cut_offset"] - partition["begin_offset"]


def bounds(partitions: "Sequence[SnapshotPartition]") -> list[dict[str, int]]:
    return [
        {"partition": index, "begin_offset": each.log_start_offset, "end_offset": each.log_end_offset}
        for index, each in enumerate(partitions)
    ]


def _with_files(bar: "Progress", work: "Callable[[Cluster], Awaitable[dict[str, Any]]]") -> dict[str, Any]:
    """As ``connected``, with a progress bar; an error about a file becomes one line, too."""
    from moldau.client.snapshots.files import SnapshotFileError

    try:
        with bar:
            return connected(work)
    except (SnapshotFileError, OSError) as error:
        raise click.ClickException(str(error)) from error


@click.command("snapshot")
@click.argument("topic")
@click.argument("target", metavar="DIR|FILE.tar.zst")
@click.option("--at", "timestamp", metavar="TIME", help="As it was then: 2026-01-31T12:00:00Z, '10m ago'.")
@cluster_command_options
def snapshot(topic: str, target: str, timestamp: str | None, as_json: bool) -> None:
    """Write a topic with its offsets, configs and checksums to a directory or an archive.

    Works with every Kafka. The name decides: .tar, .tar.gz and .tar.zst are archives, all others directories.
    It ends with what is committed.

    \b
    Examples:
      moldau topics snapshot orders orders.tar.zst
      moldau topics snapshot orders ./orders-snapshot --at '2026-01-31T00:00:00Z'
    """
    from moldau.base.clock import SystemClock
    from moldau.client.snapshots.files import open_writer

    at = None if timestamp is None else time_of(timestamp, "--at")
    bar, task = progress(f"Reading {topic}", None, shown=not as_json)

    async def work(cluster: "Cluster") -> dict[str, Any]:
        from moldau.client.snapshots.snapshots import take_snapshot

        await cluster.topic(topic)
        writer = open_writer(target)
        now_ms = SystemClock().now_ms()
        try:
            taken = await take_snapshot(
                cluster,
                topic,
                writer,
                now_ms=now_ms,
                timestamp_ms=at,
                progress=lambda n: bar.advance(task, n),
            )
        except BaseException:
            writer.discard()
            raise
        return {
            "topic": topic,
            "target": target,
            "size_bytes": taken.size,
            "partitions": bounds(taken.partitions),
        }

    result = _with_files(bar, work)
    if as_json:
        print_json(result)
        return
    offsets = sum(p["end_offset"] - p["begin_offset"] for p in result["partitions"])
    echo(
        f"Wrote {topic} to {target}: {len(result['partitions'])} partition(s), {offsets} offsets, "
        f"{size_text(result['size_bytes'])}"
    )


@click.command("restore")
@click.argument("source", metavar="DIR|FILE")
@click.argument("name", required=False)
@click.option("-c", "--config", "configs", multiple=True, metavar="NAME=VALUE", help=_CONFIG_HELP)
@cluster_command_options
def restore(source: str, name: str | None, configs: tuple[str, ...], as_json: bool) -> None:
    """Make a topic from a snapshot, with the same records at the same offsets.

    Without NAME it gets the name that it had. The topic appears when all of it is there and every checksum
    was right; else there is nothing of it.

    \b
    Examples:
      moldau topics restore orders.tar.zst
      moldau topics restore orders.tar.zst orders-of-january --config retention.ms=-1
    """
    from moldau.client.snapshots.files import read_snapshot

    changes = configs_of(configs)
    bar, task = progress(f"Restoring {name or source}", None, shown=not as_json)

    async def work(cluster: "Cluster") -> dict[str, Any]:
        from moldau.base.names import format_uuid
        from moldau.client.snapshots.snapshots import restore_snapshot

        made = await restore_snapshot(
            cluster,
            read_snapshot(source),
            name=name,
            configs=changes,
            progress=lambda size: bar.advance(task, size),
        )
        return {
            "name": made.name,
            "topic_id": format_uuid(made.topic_id),
            "taken": format_time(made.manifest.taken_ms),
            "partitions": bounds(made.partitions),
        }

    result = _with_files(bar, work)
    if as_json:
        print_json(result)
        return
    echo(f"Restored {result['name']}: {len(result['partitions'])} partition(s)")
    note(f"The snapshot was taken {result['taken']}")
