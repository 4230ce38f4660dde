"""Estimates the size of records from the next ones to be read.

Invariant: only rate limits by bytes use it; it never decides which records are read.
"""

from moldau.base.names import TopicPartition
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.spark.options import ReadOptions
from moldau.spark.read.planning import OffsetRange
from moldau.spark.read.ranges import RangeReader

_SAMPLE_RECORDS = 100


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
