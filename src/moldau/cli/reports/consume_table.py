"""``moldau consume --table``: the last value of every key, now or at some time.

Only committed records count. Where records that the table needs were deleted or compacted, a remark says so.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.cli.output import note

if TYPE_CHECKING:
    from moldau.base.names import TopicPartition
    from moldau.client.consumer.fetched import ConsumerRecord
    from moldau.client.snapshots.time_travel import Table
    from moldau.client.transport.cluster import Cluster


async def consume_table(
    cluster: "Cluster",
    partitions: "list[TopicPartition]",
    timestamp_ms: int | None,
    maximum: int | None,
    show: "Callable[[list[ConsumerRecord]], None]",
) -> int:
    """Prints the rows and returns how many there were."""
    from moldau.client.snapshots.time_travel import table_as_of

    table = await table_as_of(cluster, partitions, timestamp_ms)
    rows = table.rows[:maximum]
    show(rows)
    for line in remarks(table):
        note(line)
    return len(rows)


def remarks(table: "Table") -> list[str]:
    """What the rows do not show: an incomplete history, and records without a key."""
    lines = [
        f"{partition}: complete from offset {offset} on; what was written before is only there in part: "
        "keys may be missing, or show an older value"
        for partition, offset in table.complete_from.items()
        if offset > 0
    ]
    if table.without_key:
        lines.append(f"{table.without_key} records have no key and are not in the table")
    return lines
