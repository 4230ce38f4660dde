"""The table that a topic was at some time: the last record of every key, without those that deleted it.

Invariant: "as of" a time means the records before the first one that is newer, partition by partition, as
everywhere in Moldau. Keys are compared as bytes, before anything is decoded; records without a key belong
to no table. Only the table and one stretch of records are kept in memory.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.spark.read.columns import Columns

#: So many records are collected before they are merged into the table.
_STRETCH = 200_000


def last_of_keys(pieces: Iterable[Columns]) -> Columns | None:
    """The last record of each key of one partition, by offset; None where there is none."""
    table: Columns | None = None
    waiting: list[Columns] = []
    rows = 0
    for piece in pieces:
        waiting.append(piece)
        rows += piece.rows
        if rows >= max(_STRETCH, table.rows if table is not None else 0):
            table, waiting, rows = _last(table, waiting), [], 0
    if waiting:
        table = _last(table, waiting)
    if table is None:
        return None
    # Tombstones are needed until the end: they hide what came before.
    kept = _taken(table, np.flatnonzero(table.value.is_valid().to_numpy(zero_copy_only=False)))
    return kept if kept.rows else None


def _last(table: Columns | None, pieces: list[Columns]) -> Columns:
    together = _joined([table, *pieces] if table is not None else pieces)
    numbers = pa.array(np.arange(together.rows, dtype=np.int64))
    keys = pa.Table.from_arrays([together.key, numbers], names=["key", "row"])
    keys = keys.filter(pc.is_valid(keys.column("key")))
    last = keys.group_by("key").aggregate([("row", "max")]).column("row_max")
    return _taken(together, np.sort(last.to_numpy()))


def _joined(pieces: list[Columns]) -> Columns:
    if len(pieces) == 1:
        return pieces[0]
    first, last = pieces[0], pieces[-1]
    return replace(
        first,
        next_offset=last.next_offset,
        offset=pa.concat_arrays([each.offset for each in pieces]),
        timestamp=pa.concat_arrays([each.timestamp for each in pieces]),
        timestamp_type=pa.concat_arrays([each.timestamp_type for each in pieces]),
        key=pa.concat_arrays([each.key for each in pieces]),
        value=pa.concat_arrays([each.value for each in pieces]),
        headers=None if first.headers is None else pa.concat_arrays([each.headers for each in pieces]),
    )


def _taken(columns: Columns, which: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Columns:
    rows = pa.array(which, pa.int64())
    return replace(
        columns,
        offset=columns.offset.take(rows),
        timestamp=columns.timestamp.take(rows),
        timestamp_type=columns.timestamp_type.take(rows),
        key=columns.key.take(rows),
        value=columns.value.take(rows),
        headers=None if columns.headers is None else columns.headers.take(rows),
    )
