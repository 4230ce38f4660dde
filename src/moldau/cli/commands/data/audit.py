"""``moldau audit``: compares the ids of a topic's records with those that an application says it has
processed.

Invariant: reads only; exit code 1 when a record was not processed.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from moldau.cli.output import echo, print_json
from moldau.cli.session import FILE, cluster_command_options, connected

if TYPE_CHECKING:
    from moldau.cli.monitoring.reconciliation import Reconciliation
    from moldau.client.transport.cluster import Cluster

_SHOWN = 20


def _check_id(context: click.Context, parameter: click.Parameter, value: str) -> str:
    kind, colon, name = value.partition(":")
    if value == "key" or (kind in ("header", "value") and colon and name):
        return value
    raise click.BadParameter(f"{value!r} is none of key, header:NAME, value:FIELD")


@click.command()
@click.argument("topic")
@click.option(
    "--processed",
    type=FILE,
    required=True,
    metavar="FILE",
    help="What the application wrote down: one id in a line, or lines of JSON with a field id.",
)
@click.option(
    "--id",
    "where",
    default="header:event-id",
    show_default=True,
    callback=_check_id,
    metavar="WHERE",
    help="Where a record's id is: key, header:NAME, or value:FIELD of a JSON value (FIELD may be a.b).",
)
@click.option(
    "--most", type=click.IntRange(min=1), default=5_000_000, show_default=True, help="Ids kept in memory."
)
@cluster_command_options
def audit(topic: str, processed: Path, where: str, most: int, as_json: bool) -> None:
    """Read a topic up to its present end, and name the records that were not processed.

    \b
    Examples:
      moldau audit orders --processed billing.ids
      moldau audit orders --processed billing.ids --id value:order.id --json
    """
    from moldau.cli.monitoring.reconciliation import Reconciliation, TooManyIds

    found = Reconciliation(most)
    try:
        with processed.open(encoding="utf-8", errors="replace") as lines:
            found.add_processed(lines)

        async def work(cluster: "Cluster") -> None:
            await _read(cluster, topic, where, found)

        connected(work)
    except TooManyIds as error:
        raise click.ClickException(f"{error}. Next: raise --most, where there is memory for it") from None
    _show(found, as_json)
    if found.missing:
        raise SystemExit(1)


async def _read(cluster: "Cluster", topic: str, where: str, found: "Reconciliation") -> None:
    from moldau.base.names import TopicPartition
    from moldau.cli.monitoring.reconciliation import id_of
    from moldau.client.consumer.consumer import BEGINNING, END, Consumer

    (described,) = await cluster.topics([topic])
    places = [TopicPartition(topic, each.index) for each in described.partitions]
    async with Consumer(cluster) as consumer:
        ends = await consumer.offsets_of(dict.fromkeys(places, END))
        await consumer.assign(dict.fromkeys(places, BEGINNING))
        async for batch in consumer.batches(until=ends):
            for record in batch.consumer_records():
                if record.offset < ends[TopicPartition(topic, record.partition)]:
                    identifier = id_of(where, record.key, record.value, record.headers)
                    found.add_record(identifier, record.partition, record.offset)


def _show(found: "Reconciliation", as_json: bool) -> None:
    missing, unknown, twice = found.missing, found.unknown, found.processed_twice
    if as_json:
        print_json(
            {
                "records": found.records,
                "ids": len(found.in_topic),
                "repeated": found.repeated,
                "without_id": found.without_id,
                "missing": [{"id": each, "partition": p, "offset": o} for each, (p, o) in missing.items()],
                "unknown": unknown,
                "processed_twice": twice,
            }
        )
        return
    echo(
        f"{found.records} records, {len(found.in_topic)} ids, {found.repeated} of them written more than once"
    )
    if found.without_id:
        echo(f"{found.without_id} records have no id")
    echo(f"{len(missing)} were not processed" + (":" if missing else ""))
    for identifier, (partition, offset) in list(missing.items())[:_SHOWN]:
        echo(f"  {identifier}  partition {partition}, offset {offset}")
    if len(missing) > _SHOWN:
        echo(f"  … and {len(missing) - _SHOWN} more (--json shows all)")
    if unknown:
        echo(f"{len(unknown)} were processed and are not in the topic, such as {unknown[0]}")
    if twice:
        echo(f"{len(twice)} were processed more than once, such as {twice[0]}")
