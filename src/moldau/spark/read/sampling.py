"""Looks at a few records: the next ones to be read, for their size, and the newest ones, for their types.

Invariant: what is found here never decides which records are read.
"""

from moldau.base.names import TopicPartition
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.schemas.schema_id import ID_SIZE
from moldau.spark.options import ReadOptions
from moldau.spark.read.listing import list_offsets, partitions_of
from moldau.spark.read.offsets import EARLIEST, LATEST
from moldau.spark.read.planning import OffsetRange
from moldau.spark.read.ranges import RangeReader

_SAMPLE_RECORDS = 100
#: How many records the types of all are inferred from.
_NEWEST_RECORDS = 1_000


def mean_record_size(
    loop: BackgroundLoop,
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
    options: ReadOptions,
) -> int:
    """Bytes of key and value of a record, on the mean of the fullest partition's next ones; at least 1."""
    fullest = max(ends, key=lambda tp: ends[tp] - starts.get(tp, ends[tp]), default=None)
    if fullest is None or ends[fullest] <= starts[fullest]:
        return 1
    start = starts[fullest]
    wanted = OffsetRange(*fullest, start, min(ends[fullest], start + _SAMPLE_RECORDS))
    rows = size = 0
    for columns in RangeReader(loop, wanted, options):
        rows += columns.rows
        size += columns.key.nbytes + columns.value.nbytes
    return max(size // max(rows, 1), 1)


def newest_values(loop: BackgroundLoop, options: ReadOptions, side: str) -> list[bytes]:
    """Keys or values of the newest records, about as many of each partition; without nulls and schema ids."""

    async def ends() -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        partitions = await partitions_of(loop.cluster, options)
        committed = options.read_committed
        firsts = await list_offsets(loop.cluster, dict.fromkeys(partitions, EARLIEST), committed=committed)
        lasts = await list_offsets(loop.cluster, dict.fromkeys(partitions, LATEST), committed=committed)
        return firsts, lasts

    firsts, lasts = loop.run(ends())
    each = -(-_NEWEST_RECORDS // max(len(lasts), 1))
    found: list[bytes] = []
    for partition, last in lasts.items():
        wanted = OffsetRange(*partition, max(firsts[partition], last - each), last)
        for columns in RangeReader(loop, wanted, options):
            values = (columns.key if side == "key" else columns.value).to_pylist()
            found += (_unframed(value) for value in values if value is not None)
    return found


def _unframed(value: bytes) -> bytes:
    return value[ID_SIZE:] if len(value) >= ID_SIZE and value[0] == 0 else value
