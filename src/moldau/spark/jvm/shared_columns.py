"""How the JVM asks for batches in shared memory: a schema of one column, whose metadata say what is wanted.

Invariant: ``jvm/ColumnarSource.java`` writes what is read here, and nobody else: a user's column is never
taken for it, because a topic has no column of that name. A filter that is not understood is left out.
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
    """What Spark wants of a source."""

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
    told = [_filter(*text.split("\t")) for text in first.metadata["filters"]]
    return Asked(columns, True, tuple(each for each in told if each is not None))


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
