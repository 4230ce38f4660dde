"""What ``fast_decode`` does in plain Python: for where numba is absent, and to check the kernels.

Law: the same columns for the same bytes. Slow is fine here, and clever is not.
"""

from collections.abc import Sequence

import pyarrow as pa

from moldau.client.fetched import read_batches
from moldau.protocol.messages.fetch import AbortedTransaction
from moldau.spark.columns import HEADERS_TYPE, Columns


def decode(
    records: memoryview,
    *,
    name: str,
    first_offset: int,
    end_offset: int,
    aborted: Sequence[AbortedTransaction] | None,
    headers: bool = False,
) -> Columns:
    """The records of [first, end) in the whole batches of ``records``; ``name`` is for messages only."""
    next_offset = first_offset
    rows = []
    for step in read_batches(name, -1, records, fetch_offset=first_offset, aborted_transactions=aborted):
        next_offset = step.next_offset
        if step.batch is not None:
            rows += [r for r in step.batch.consumer_records() if first_offset <= r.offset < end_offset]
    return Columns(
        next_offset,
        pa.array([row.offset for row in rows], pa.int64()),
        pa.array([row.timestamp for row in rows], pa.int64()),
        pa.array([int(row.timestamp_type) for row in rows], pa.int32()),
        pa.array([row.key for row in rows], pa.binary()),
        pa.array([row.value for row in rows], pa.binary()),
        pa.array([_headers(row.headers) for row in rows], HEADERS_TYPE) if headers else None,
    )


def _headers(pairs: Sequence[tuple[str, bytes | None]]) -> list[dict[str, object]] | None:
    return [{"key": name, "value": value} for name, value in pairs] or None
