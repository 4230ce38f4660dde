"""Values of records as columns of a lake's tables, by pyarrow.

Small numbers become 32 bits wide, and every column may be null, because tables outlive schemas. Columns that
a table has and a batch does not are null; types of the table win where nothing is lost.

Invariant: pure; what does not fit into the table is a ConnectException, never a value that is cut.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from moldau.connect.connectors.libraries import library
from moldau.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Struct
from moldau.connect.data.types import Instant, Type
from moldau.connect.errors import ConnectException, DataException

#: The most digits that these tables have.
_DIGITS = 38


def column_type(schema: Schema, extra: str) -> Any:
    arrow = library("pyarrow", extra)
    parameters = schema.parameters or {}
    if schema.name == DECIMAL:
        digits = int(parameters.get("connect.decimal.precision", _DIGITS))
        return arrow.decimal128(min(digits, _DIGITS), int(parameters.get("scale", "0")))
    logical = {DATE: arrow.date32(), TIME: arrow.int32(), TIMESTAMP: arrow.timestamp("us", "UTC")}
    if schema.name in logical:
        return logical[schema.name]
    match schema.type:
        case Type.STRUCT:
            return arrow.struct([(each.name, column_type(each.schema, extra)) for each in schema.fields])
        case Type.ARRAY:
            return arrow.list_(column_type(_given(schema.values), extra))
        case Type.MAP:
            kinds = (column_type(_given(schema.keys), extra), column_type(_given(schema.values), extra))
            return arrow.map_(*kinds)
    return {
        Type.INT8: arrow.int32(),
        Type.INT16: arrow.int32(),
        Type.INT32: arrow.int32(),
        Type.INT64: arrow.int64(),
        Type.FLOAT32: arrow.float32(),
        Type.FLOAT64: arrow.float64(),
        Type.BOOLEAN: arrow.bool_(),
        Type.STRING: arrow.string(),
    }.get(schema.type, arrow.binary())


def _given(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataException("A list or map whose items have no schema has no place in a table")
    return schema


def cell(schema: Schema, value: object) -> Any:
    if isinstance(value, Instant):
        when = value.datetime()
        if schema.name == TIME:
            return ((when.hour * 60 + when.minute) * 60 + when.second) * 1000 + when.microsecond // 1000
        return when.date() if schema.name == DATE else when
    if isinstance(value, Struct):
        return {field.name: cell(field.schema, item) for field, item in value.items()}
    if isinstance(value, list | tuple):
        return [cell(_given(schema.values), item) for item in value]
    if isinstance(value, dict):
        keys, values = _given(schema.keys), _given(schema.values)
        return [(cell(keys, key), cell(values, item)) for key, item in value.items()]
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def table_of(rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, Any], extra: str) -> Any:
    """An Arrow table; cells that are missing are null."""
    arrow = library("pyarrow", extra)
    try:
        columns = [arrow.array([row.get(name) for row in rows], kind) for name, kind in kinds.items()]
    except arrow.ArrowException as error:
        raise ConnectException(f"A value does not fit into its column: {error}") from None
    return arrow.table(columns, schema=arrow.schema(list(kinds.items())))


def merged(kinds: dict[str, Any], more: Iterable[tuple[str, Any]], extra: str) -> None:
    """Adds columns to those of a batch; a record of a newer schema may widen one."""
    arrow = library("pyarrow", extra)
    for name, kind in more:
        known = kinds.get(name)
        if known is None or known == kind:
            kinds[name] = kind
            continue
        try:
            both = [arrow.schema([(name, each)]) for each in (known, kind)]
            kinds[name] = arrow.unify_schemas(both, promote_options="permissive").field(name).type
        except arrow.ArrowException:
            raise DataException(f"The column {name} was {known} and is now {kind}") from None


def aligned(batch: Any, table: Any, evolve: bool, extra: str) -> Any:
    """The batch with the columns of ``table`` (an Arrow schema, or None if there is none yet) in its order
    and types, and new ones behind them."""
    if table is None:
        return batch
    arrow = library("pyarrow", extra)
    new = [name for name in batch.schema.names if name not in table.names]
    if new and not evolve:
        raise ConnectException(
            f"The table has no column {', '.join(new)}. Next: auto.evolve=true, or add it yourself"
        )
    fields, columns = [], []
    for field in table:
        if field.name in batch.schema.names:
            columns.append(_cast(arrow, batch.column(field.name), field))
        else:
            columns.append(arrow.nulls(batch.num_rows, field.type))
        fields.append((field.name, field.type))
    for name in new:
        columns.append(batch.column(name))
        fields.append((name, batch.schema.field(name).type))
    return arrow.table(columns, schema=arrow.schema(fields))


def _cast(arrow: Any, column: Any, field: Any) -> Any:
    if arrow.types.is_string(field.type) and not arrow.types.is_string(column.type):
        raise ConnectException(f"The column {field.name} of the table is a text, and {column.type} is given")
    try:
        return column.cast(field.type)
    except arrow.ArrowException as error:
        raise ConnectException(
            f"The column {field.name} of the table is {field.type}, and {column.type} does not fit: {error}"
        ) from None
