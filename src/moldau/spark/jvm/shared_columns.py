"""How the JVM asks for batches in shared memory: a schema of one column whose metadata say what it wants.

Invariant: only ``ColumnarSource.java`` makes such a schema; no topic has a column of that name, so a user's
column is never mistaken for it. A filter that is not understood is left out.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import datasource
from pyspark.sql.types import StructType

COLUMN = "__moldau_shared"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Asked:
    """What Spark asks of a source."""

    columns: StructType
    #: Whether batches go through shared memory.
    shared: bool = False
    #: Spark's filters, which it applies again.
    filters: tuple[Any, ...] = ()


def asked(schema: StructType) -> Asked:
    """What a schema asks for."""
    first = schema.fields[0] if len(schema.fields) == 1 else None
    if first is None or first.name != COLUMN:
        return Asked(schema)
    columns = StructType.fromJson(json.loads(first.metadata["columns"]))
    filters = [_filter(*text.split("\t")) for text in first.metadata["filters"]]
    return Asked(columns, True, tuple(each for each in filters if each is not None))


def _filter(kind: str, column: str, *numbers: str) -> Any:
    try:
        values = [_value(number) for number in numbers]
    except (OverflowError, ValueError):
        return None
    made = getattr(datasource, kind)
    return made((column,), tuple(values) if kind == "In" else values[0])


def _value(number: str) -> int | datetime:
    if number.startswith("T"):
        return _EPOCH + timedelta(microseconds=int(number[1:]))
    return int(number)
