"""What of a range a query wants: every record, or with ``asOf`` the last one of each key.

Invariant: the one place where the two ways part, so that typed and plain columns, with Spark and without,
agree.
"""

from collections.abc import Iterator

from moldau.client.transport.background_loop import BackgroundLoop
from moldau.spark.options import ReadOptions
from moldau.spark.read.columns import Columns
from moldau.spark.read.planning import OffsetRange
from moldau.spark.read.ranges import RangeReader


def pieces_of_range(loop: BackgroundLoop, wanted: OffsetRange, options: ReadOptions) -> Iterator[Columns]:
    """The records in pieces."""
    if options.as_of_ms is None:
        yield from RangeReader(loop, wanted, options)
        return
    from moldau.spark.read.as_of import last_of_keys

    table = last_of_keys(RangeReader(loop, wanted, options))
    if table is not None:
        yield table
