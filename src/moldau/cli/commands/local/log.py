"""``moldau log``: inspect, verify, repair and import the files of a data directory.

Here are the group and ``inspect``; ``log_checks`` has verify and repair, ``log_import`` has import.

Invariant: only the files are read; no broker is asked. Only repair writes to the directory that it is given,
and it locks the directory while it does.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from moldau.cli.commands.local.log_checks import repair, verify
from moldau.cli.commands.local.log_import import import_directory
from moldau.cli.log_target import holder_of, target_at
from moldau.cli.output import echo, note, print_json, print_table, progress, size_text
from moldau.cli.session import json_option

if TYPE_CHECKING:
    from moldau.inspection.contents import PartitionView
    from moldau.inspection.layout import LogTarget

_MAX_ROWS = 20


@click.group()
def log() -> None:
    """Look into the files of a data directory, check and mend them, or take over those of a Kafka broker.

    DIR is a data directory, the directory of one partition, or one file of it; Apache Kafka's and ours alike.

    \b
    Examples:
      moldau log inspect data
      moldau log inspect data/orders-0 --json
      moldau log verify data
      moldau log repair data --dry-run
      moldau log import /var/lib/kafka/data data
    """


log.add_command(verify)
log.add_command(repair)
log.add_command(import_directory)


@log.command("inspect", short_help="Show what is in the files.")
@click.argument("path", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--details", is_flag=True, help="Show segments, producers and holes of every partition.")
@click.option("--all", "show_all", is_flag=True, help="Show empty partitions too.")
@click.option(
    "--sample",
    "sampled_batches",
    type=click.IntRange(0),
    default=32,
    show_default=True,
    metavar="BATCHES",
    help="Batches of a segment whose records are looked at; 0 for none.",
)
@click.option(
    "--plot",
    "plot_file",
    type=click.Path(dir_okay=False),
    metavar="FILE.png",
    help="Draw sizes over time; needs matplotlib.",
)
@json_option
def inspect_log(
    path: Path, details: bool, show_all: bool, sampled_batches: int, plot_file: str | None, as_json: bool
) -> None:
    """Show what is in the files: segments, batches, codecs, producers, holes, sizes over time.

    Headers are read, and the records of a few batches of each segment. A running broker is not disturbed.

    \b
    Examples:
      moldau log inspect data
      moldau log inspect data/orders-0
      moldau log inspect data/orders-0/00000000000000000000.log --json
      moldau log inspect data --plot sizes.png
    """
    target = target_at(path)
    views = _inspect(target, sampled_batches)
    if plot_file is not None:
        _plot(views, plot_file)
    if as_json:
        from moldau.cli.reports.log_charts import partition_json

        print_json([partition_json(view) for view in views])
        return
    holder = holder_of(target)
    if holder is not None:
        note(f"In use by process {holder}: it may be writing to the ends of the logs.")
    if len(views) == 1 and target.path != target.root:
        _print_details(views[0])
        return
    _print_overview(target, views, show_all=show_all)
    if details:
        for view in views:
            if view.size or show_all:
                _print_details(view)


def _inspect(target: "LogTarget", sampled_batches: int) -> "list[PartitionView]":
    from moldau.inspection.contents import inspect, read_offsets

    offsets = read_offsets(None if target.root is None else str(target.root))
    bar, task = progress("reading", target.size)
    views = []
    try:
        with bar:
            for partition in target.partitions:
                bar.update(task, rate=partition.name)
                view = inspect(
                    partition,
                    offsets,
                    sampled_batches=sampled_batches,
                    progress=lambda size: bar.advance(task, size),
                )
                views.append(view)
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from error
    return views


def _plot(views: "list[PartitionView]", plot_file: str) -> None:
    from moldau.cli.reports.log_charts import plot

    try:
        plot(views, plot_file)
    except ImportError:
        raise click.ClickException("--plot needs matplotlib. Next: pip install matplotlib") from None
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{plot_file} cannot be written: {error}") from error
    note(f"{plot_file} written.")


def _print_overview(target: "LogTarget", views: "list[PartitionView]", *, show_all: bool) -> None:
    from moldau.cli.reports.log_charts import PARTITION_COLUMNS, bars, partition_row
    from moldau.inspection.contents import SizesOverTime

    shown = [view for view in views if view.size or show_all]
    records = sum(view.records for view in views)
    size = sum(view.size for view in views)
    echo(f"{target.path}: {len(views)} partitions, {records:,} records, {size_text(size)}")
    if shown:
        print_table(PARTITION_COLUMNS, [partition_row(view) for view in shown])
    if len(shown) < len(views):
        echo(f"{len(views) - len(shown)} empty partitions are not shown (--all)")
    sizes = SizesOverTime()
    for view in views:
        sizes.merge(view.sizes)
    for line in bars(sizes):
        echo(line)


def _print_details(view: "PartitionView") -> None:
    from moldau.cli.reports import log_charts

    echo(f"\n{view.name}: {view.records:,} records in {view.batches:,} batches, {size_text(view.size)}")
    for line in log_charts.facts(view):
        echo(f"  {line}")
    print_table(log_charts.SEGMENT_COLUMNS, [log_charts.segment_row(each) for each in view.segments])
    for line in log_charts.fault_lines(view, _MAX_ROWS):
        echo(f"  {line}")
    if view.producers:
        rows = log_charts.producer_rows(view, _MAX_ROWS)
        print_table(log_charts.PRODUCER_COLUMNS, rows, title=f"Producers: {len(view.producers):,}")
    if view.holes:
        rows = log_charts.hole_rows(view, _MAX_ROWS)
        print_table(log_charts.HOLE_COLUMNS, rows, title=f"Holes in the offsets: {len(view.holes):,}")
    for line in log_charts.bars(view.sizes):
        echo(line)
