"""``moldau log import``: makes a data directory of Moldau from those of a stopped Kafka broker.

Invariant: the sources are never changed. What cannot be imported is reported before anything is copied.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from moldau.cli.log_target import CannotRead, holder_of, target_at
from moldau.cli.output import note, print_json, progress, size_text
from moldau.cli.session import json_option

if TYPE_CHECKING:
    from moldau.importing.directory import ImportPlan


@click.command("import", short_help="Take over the data of a stopped Kafka broker.")
@click.argument("sources", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="KAFKA_DIR...")
@click.argument("target", type=click.Path(path_type=Path), metavar="NEW_DIR")
@click.option("--cluster-id", help="Of the new directory; default: that of the source.")
@click.option(
    "--node-id", type=click.IntRange(0), default=1, show_default=True, help="The node.id of the new broker."
)
@click.option(
    "--link", is_flag=True, help="Link sealed segments instead of copying them; needs one file system."
)
@click.option("--dry-run", is_flag=True, help="Say what would be imported, and do nothing.")
@json_option
def import_directory(
    sources: tuple[Path, ...],
    target: Path,
    cluster_id: str | None,
    node_id: int,
    link: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Take over the data of a stopped Apache Kafka 4.x broker (KRaft), or of another Moldau.

    Partitions keep topic ids, offsets and leader epochs; group offsets and transactions come along, and so
    do topic configs and partition counts where the metadata log (__cluster_metadata-0) is there. The source
    is not changed. Afterwards: moldau broker --data-dir NEW_DIR

    \b
    Examples:
      moldau log import /var/lib/kafka/data data --dry-run
      moldau log import /var/lib/kafka/data data
      moldau log import /disk1/kafka /disk2/kafka data --link
    """
    from moldau.importing.directory import plan_import, run_import
    from moldau.importing.metadata import ImportFailed
    from moldau.storage.errors import StorageError

    for source in sources:
        holder = holder_of(target_at(source))
        if holder is not None:
            raise CannotRead(f"{source} is in use by process {holder}. Next: stop the broker first")
    try:
        plan = plan_import(sources, target, node_id=node_id, cluster_id=cluster_id, link=link)
        _print_plan(plan, as_json=as_json)
        if dry_run:
            return
        bar, task = progress("importing", plan.size)
        with bar:
            run_import(plan, lambda size: bar.advance(task, size))
    except ImportFailed as error:
        raise click.ClickException(str(error)) from error
    except (StorageError, OSError) as error:
        raise click.ClickException(f"the import did not end: {error}") from error
    if not as_json:
        click.echo(f"{target} is ready. Next: moldau broker --data-dir {target}")


def _print_plan(plan: "ImportPlan", *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "cluster_id": plan.cluster_id,
                "node_id": plan.node_id,
                "metadata": plan.origin,
                "clean": plan.clean,
                "topics": plan.topics,
                "partitions": len(plan.partitions),
                "bytes": plan.size,
                "remarks": plan.remarks,
            }
        )
        return
    click.echo(
        f"{len(plan.topics)} topic(s), {len(plan.partitions)} partition(s), {size_text(plan.size)}; "
        f"node {plan.node_id} of cluster {plan.cluster_id}; metadata from {plan.origin}"
    )
    for remark in plan.remarks:
        note(f"note: {remark}")
