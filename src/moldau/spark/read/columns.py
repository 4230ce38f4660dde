"""The columns of a topic as Spark's own Kafka connector names them, and Arrow batches made of them.

Arrays are made from numpy's memory, without ``pa.array``, ``pa.scalar`` and ``cast``: the first such call
of a process loads pandas, which takes a quarter of a second, too long for a worker that has to show a few
rows.

Invariant: names, order and types are the connector's, so that a query which was written for it needs no
change.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.spark.record_columns import READ_COLUMNS

HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")

_ARROW_TYPES = {
    "BINARY": pa.binary(),
    "STRING": pa.string(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "TIMESTAMP": TIMESTAMP_TYPE,
}
#: The furthest time, before and after 1970, that fits into 64 bits of microseconds.
_LATEST_MS = (2**63 - 1) // 1000
#: Name and Arrow type.
COLUMNS: tuple[tuple[str, pa.DataType], ...] = tuple((name, _ARROW_TYPES[sql]) for name, sql in READ_COLUMNS)


@dataclass(frozen=True, slots=True)
class Columns:
    """Records of one partition, column by column; ``next_offset`` is where the next fetch begins."""

    next_offset: int
    offset: pa.Array
    #: Milliseconds.
    timestamp: pa.Array
    timestamp_type: pa.Array
    key: pa.Array
    value: pa.Array
    #: None where headers were not asked for.
    headers: pa.Array | None

    @property
    def rows(self) -> int:
        return len(self.offset)


def column(columns: Columns, name: str, topic: str, partition: int) -> pa.Array:
    """One of the connector's columns."""
    match name:
        case "key":
            return columns.key
        case "value":
            return columns.value
        case "topic":
            return _repeated(topic, columns.rows)
        case "partition":
            return number_array(np.full(columns.rows, partition, np.int32), pa.int32())
        case "offset":
            return columns.offset
        case "timestamp":
            return microseconds(columns.timestamp)
        case "timestampType":
            return columns.timestamp_type
        case "headers":
            assert columns.headers is not None, "headers were not decoded"
            return columns.headers
    raise KeyError(name)


def microseconds(milliseconds: pa.Array) -> pa.Array:
    """Timestamps as Spark has them; one that is out of its range is an error, not another time."""
    start, rows = milliseconds.offset, len(milliseconds)
    times = np.frombuffer(milliseconds.buffers()[1], np.int64)[start : start + rows]
    if rows and (int(times.max()) > _LATEST_MS or int(times.min()) < -_LATEST_MS):
        worst = int(times.max()) if int(times.max()) > _LATEST_MS else int(times.min())
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"a record has the timestamp {worst} (milliseconds), which is beyond what Spark can hold; "
            "read it without Spark, for instance with 'moldau consume'",
        )
    return number_array(times * 1000, TIMESTAMP_TYPE)


def number_array(values: Any, kind: pa.DataType) -> pa.Array:
    """An Arrow array over numbers that are contiguous in memory."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _repeated(text: str, rows: int) -> pa.Array:
    encoded = text.encode()
    edges = np.arange(rows + 1, dtype=np.int32) * np.int32(len(encoded))
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(edges), pa.py_buffer(encoded * rows)])


def arrow_batch(columns: Columns, names: tuple[str, ...], topic: str, partition: int) -> Any:
    """The columns of these names, in this order."""
    arrays = [column(columns, name, topic, partition) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def declared(batches: Iterable[Any], never_null: frozenset[str]) -> Iterator[Any]:
    """The same batches under a schema that says which columns are never null."""
    if not never_null:
        yield from batches
        return
    given = schema = None
    for batch in batches:
        if batch.schema != given:
            given = batch.schema
            schema = pa.schema([each.with_nullable(each.name not in never_null) for each in given])
        yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
