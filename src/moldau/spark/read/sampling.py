"""How large records are: a look at the first of those that wait.

Invariant: an estimate, for rate limits by bytes only; it never decides what is read in the end.
"""

from moldau.base.names import TopicPartition
from moldau.spark.options import ReadOptions
from moldau.spark.read.planning import OffsetRange
from moldau.spark.read.ranges import RangeReader
from moldau.spark.wire import Wire

_SAMPLE_RECORDS = 100


def mean_record_size(
    wire: Wire, starts: dict[TopicPartition, int], ends: dict[TopicPartition, int], options: ReadOptions
) -> int:
    """Bytes of key and value of a record, on the mean of the fullest partition's next ones; at least 1."""
    fullest = max(ends, key=lambda tp: ends[tp] - starts.get(tp, ends[tp]), default=None)
    if fullest is None or ends[fullest] <= starts[fullest]:
        return 1
    start = starts[fullest]
    wanted = OffsetRange(*fullest, start, min(ends[fullest], start + _SAMPLE_RECORDS))
    rows = size = 0
    for columns in RangeReader(wire, wanted, options):
        rows += columns.rows
        size += columns.key.nbytes + columns.value.nbytes
    return max(size // max(rows, 1), 1)
