"""Rows of INSERT become records: values cast to the types of their columns, then the formats of the source.

Invariant: all rows are encoded before the first is sent; a row that does not fit sends none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moldau.client import Cluster, Producer
from moldau.sql.catalogue import Source
from moldau.sql.errors import SqlError
from moldau.sql.expressions import Scope, compile_expression
from moldau.sql.formats import key_serde, value_serde
from moldau.sql.statements import InsertValues
from moldau.sql.types import caster


@dataclass(frozen=True, slots=True)
class EncodedRow:
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None


def rows_of(statement: InsertValues, source: Source) -> list[dict[str, Any]]:
    """The values of INSERT … VALUES by the names of their columns."""
    columns = statement.columns or tuple(each.name for each in source.columns)
    rows = []
    for row in statement.rows:
        if len(row) != len(columns):
            raise SqlError(f"{len(row)} values for {len(columns)} columns: {', '.join(columns)}.")
        values = [compile_expression(each, Scope({})).evaluate({}) for each in row]
        rows.append(dict(zip(columns, values, strict=True)))
    return rows


def encoded_rows(source: Source, rows: Sequence[Mapping[str, Any]], registry: Any) -> list[EncodedRow]:
    """Rows as the source has them in its topic; ``ROWTIME`` among the columns is the record's time."""
    keys = key_serde(source.key_format, source.key_columns, registry)
    values = value_serde(source.value_format, source.value_columns, registry, source.name)
    found = []
    for row in rows:
        given, timestamp = _cast(source, row)
        parts = tuple(given.get(each.name) for each in source.key_columns)
        if source.kind == "TABLE" and None in parts:
            raise SqlError(f"A row of the table {source.name} needs its key.")
        key = None if not parts else parts if len(parts) > 1 else parts[0]
        rest = {each.name: given.get(each.name) for each in source.value_columns}
        is_tombstone = source.kind == "TABLE" and not any(each in given for each in rest)
        encoded_key = None if key is None or not parts else keys.serialize(source.topic, key)
        value = None if is_tombstone else values.serialize(source.topic, rest)
        found.append(EncodedRow(encoded_key, value, timestamp))
    return found


def _cast(source: Source, row: Mapping[str, Any]) -> tuple[dict[str, Any], int | None]:
    types = {each.name: each.type for each in source.columns}
    given: dict[str, Any] = {}
    timestamp = None
    for name, value in row.items():
        if name == "ROWTIME":
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
                raise SqlError(f"ROWTIME takes milliseconds since 1970, not {value!r}.")
            timestamp = value
            continue
        if name not in types:
            raise SqlError(f"{source.name} has no column {name}.")
        try:
            given[name] = caster(types[name])(value)
        except (ValueError, ArithmeticError) as error:
            raise SqlError(f"Column {name} is {types[name]}: {error}.") from error
    return given, timestamp


async def send_rows(cluster: Cluster, source: Source, rows: Sequence[EncodedRow]) -> None:
    """Returns when all rows are written."""
    async with await Producer.open(cluster) as producer:
        for row in rows:
            await (await producer.send(source.topic, row.value, key=row.key, timestamp_ms=row.timestamp_ms))
