"""``moldau offsets``: where the partitions of a topic begin and end."""

from typing import TYPE_CHECKING, Any

import click

from moldau.base.times import HOW_TO_WRITE, format_time, parse_time
from moldau.cli.output import print_json, print_table
from moldau.cli.session import cluster_command_options, connected

if TYPE_CHECKING:
    from moldau.client.transport.cluster import Cluster


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@click.option(
    "-p", "--partition", "partitions", multiple=True, type=click.IntRange(min=0), help="Repeatable."
)
@click.option("--at", "moment", metavar="TIME", help=f"Also the first record at or after {HOW_TO_WRITE}.")
@click.option("--committed", is_flag=True, help="End where open transactions begin (read_committed).")
@cluster_command_options
def offsets(
    topics: tuple[str, ...], partitions: tuple[int, ...], moment: str | None, committed: bool, as_json: bool
) -> None:
    """Show the first offset, the end offset and the number of records of each partition.

    \b
    Examples:
      moldau offsets orders
      moldau offsets orders --at '1h ago'
      moldau offsets orders --at 2026-01-31T12:00:00Z --json
    """
    from moldau.base.clock import SystemClock

    try:
        timestamp = None if moment is None else parse_time(moment, SystemClock().now_ms())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--at") from None

    async def work(cluster: "Cluster") -> list[dict[str, Any]]:
        return await _rows(cluster, topics, partitions, timestamp, committed)

    rows = connected(work)
    if as_json:
        print_json(rows)
        return
    columns = ["Topic", "Partition>", "Begin>", "End>", "Records>"]
    if timestamp is not None:
        columns += [f"At {format_time(timestamp)}>", "Time of that record"]
    print_table(columns, [_cells(row, timestamp is not None) for row in [*rows, *_total(rows)]])


async def _rows(
    cluster: "Cluster",
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    timestamp: int | None,
    committed: bool,
) -> list[dict[str, Any]]:
    from asyncio import gather

    from moldau.base.names import TopicPartition
    from moldau.client.admin.admin import Admin, raise_errors
    from moldau.client.admin.descriptions import (
        EARLIEST,
        LATEST,
        READ_COMMITTED,
        READ_UNCOMMITTED,
        ListedOffset,
    )

    wanted: list[TopicPartition] = []
    for name in topics:
        topic = await cluster.topic(name)
        indexes = partitions or range(len(topic.partitions))
        wanted += [TopicPartition(name, index) for index in indexes]
    admin = Admin(cluster)
    level = READ_COMMITTED if committed else READ_UNCOMMITTED
    asked = [EARLIEST, LATEST] if timestamp is None else [EARLIEST, LATEST, timestamp]
    answers = await gather(
        *(admin.list_offsets(dict.fromkeys(wanted, t), isolation_level=level) for t in asked)
    )
    for answer in answers:
        raise_errors(answer)
    rows = []
    for partition in wanted:
        found = [a[partition] for a in answers]
        begin, end = (f.offset if isinstance(f, ListedOffset) else -1 for f in found[:2])
        row: dict[str, Any] = {
            "topic": partition.topic,
            "partition": partition.partition,
            "begin_offset": begin,
            "end_offset": end,
            "records": end - begin,
        }
        if timestamp is not None and isinstance(found[2], ListedOffset):
            row["at_offset"] = found[2].offset if found[2].offset >= 0 else None
            row["at_timestamp"] = found[2].timestamp if found[2].offset >= 0 else None
        rows.append(row)
    return rows


def _total(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"topic": "all", "records": sum(row["records"] for row in rows)}] if len(rows) > 1 else []


def _cells(row: dict[str, Any], at: bool) -> list[object]:
    cells = [row.get(key) for key in ("topic", "partition", "begin_offset", "end_offset", "records")]
    if at:
        found = row.get("at_offset")
        cells += ["" if "partition" not in row else "none" if found is None else found]
        cells += ["" if row.get("at_timestamp") is None else format_time(row["at_timestamp"])]
    return cells
