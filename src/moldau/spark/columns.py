"""The columns of a topic as Spark's own Kafka connector names them, and Arrow batches made of them.

Law: names, order and types are the connector's, so that a query which was written for it needs no change.
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

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
            return pa.repeat(pa.scalar(topic, pa.string()), columns.rows)
        case "partition":
            return pa.repeat(pa.scalar(partition, pa.int32()), columns.rows)
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
    """Timestamps as Spark keeps them; one that lies beyond what it can hold is an error, not another time."""
    return milliseconds.cast(pa.timestamp("ms", tz="UTC")).cast(TIMESTAMP_TYPE)


def arrow_batch(columns: Columns, names: tuple[str, ...], topic: str, partition: int) -> Any:
    """The columns of these names, in this order."""
    arrays = [column(columns, name, topic, partition) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))
