"""What is known of tables of MySQL and MariaDB: columns as the catalogue and as the binary log describe them.

Invariant: the same table gives the same columns from both, so that a snapshot and the stream behind it have
one schema.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moldau.connect.connectors.cdc.envelope import TableShape, source_schema
from moldau.connect.connectors.cdc.mysql_types import MySqlColumn, MySqlRules, Read, zero_of
from moldau.connect.data.schema import Schema, Struct
from moldau.connect.data.types import Type
from moldau.connect.errors import ConnectException


def mysql_source(flavour: str) -> Schema:
    """The block ``source`` of ``mysql`` or ``mariadb``."""
    return source_schema(
        f"io.debezium.connector.{flavour}.Source",
        {
            "table": Schema(Type.STRING, optional=True),
            "server_id": Schema(Type.INT64),
            "gtid": Schema(Type.STRING, optional=True),
            "file": Schema(Type.STRING),
            "pos": Schema(Type.INT64),
            "row": Schema(Type.INT32),
            "thread": Schema(Type.INT64, optional=True),
            "query": Schema(Type.STRING, optional=True),
        },
    )


@dataclass(frozen=True, slots=True)
class MySqlTable:
    database: str
    name: str
    columns: tuple[MySqlColumn, ...]
    readers: tuple[Read, ...]
    shape: TableShape

    @classmethod
    def of(
        cls,
        prefix: str,
        database: str,
        name: str,
        columns: Sequence[MySqlColumn],
        rules: MySqlRules,
        source: Schema,
    ) -> "MySqlTable":
        made = [rules.column(column) for column in columns]
        fields = [(column.name, schema) for column, (schema, _) in zip(columns, made, strict=True)]
        keys = [column.name for column in columns if column.key]
        shape = TableShape.of(f"{prefix}.{database}.{name}", fields, keys, source)
        return cls(database, name, tuple(columns), tuple(read for _, read in made), shape)

    def row(self, cells: Mapping[str, Any]) -> Struct:
        values: dict[str, object] = {}
        for column, read in zip(self.columns, self.readers, strict=True):
            cell = cells[column.name]
            if cell is not None:
                values[column.name] = read(cell)
            elif not column.optional or column.key:
                values[column.name] = zero_of(column)
        return self.shape.row(values)


# --- the catalogue ------------------------------------------------------------------------------------

TABLES = """
SELECT table_schema, table_name FROM information_schema.tables
WHERE table_type = 'BASE TABLE'
  AND table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
ORDER BY 1, 2
"""
COLUMNS = """
SELECT column_name, data_type, column_type, is_nullable = 'YES', column_key = 'PRI', numeric_precision,
       numeric_scale, datetime_precision, character_octet_length
FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position
"""
_LABEL = re.compile(r"'((?:[^']|'')*)'")
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
_BLOBS = ("varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_SHAPES = {"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"}
_COLLECTIONS = {"geometrycollection", "geomcollection"}
_PLAIN = ("tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "json", "year", "date")


def from_catalogue(row: Sequence[Any]) -> MySqlColumn:
    """A row of ``COLUMNS``."""
    name, kind, full, optional, key, precision, scale, fraction, octets = row
    kind, size, labels = kind.lower(), 0, ()
    if kind in _TEXTS:
        kind = "text"
    elif kind == "binary":
        size = octets or 0
    elif kind in _BLOBS:
        kind = "binary"
    elif kind in _SHAPES | _COLLECTIONS:
        kind = "geometry"
    elif kind in ("time", "datetime", "timestamp"):
        size = fraction or 0
    elif kind in ("decimal", "bit"):
        size = precision or 0
    elif kind in ("enum", "set"):
        labels = tuple(label.replace("''", "'") for label in _LABEL.findall(full))
    elif kind not in _PLAIN:
        raise ConnectException(
            f"The column {name} is of type {kind}, which this connector cannot read. "
            "Next: name it in column.exclude.list"
        )
    unsigned = "unsigned" in full.lower() and kind != "decimal"
    scale = scale or 0 if kind == "decimal" else 0
    return MySqlColumn(name, kind, bool(optional), unsigned, size, scale, labels, bool(key))


# --- the binary log -----------------------------------------------------------------------------------

_CODES = {
    1: "tinyint",
    2: "smallint",
    3: "int",
    4: "float",
    5: "double",
    8: "bigint",
    9: "mediumint",
    10: "date",
    13: "year",
    245: "json",
}
_FRACTIONS = {7: "timestamp", 11: "time", 12: "datetime", 17: "timestamp", 18: "datetime", 19: "time"}
_BIT, _DECIMAL, _ENUM, _SET, _BLOB, _GEOMETRY, _STRING = 16, 246, 247, 248, 252, 255, 254


def from_log(column: Any, optional: bool, key: bool) -> MySqlColumn:
    """A column of the event that describes a table in the log."""
    kind, size, scale, labels = _CODES.get(column.type, "text"), 0, 0, ()
    if column.type in _FRACTIONS:
        kind, size = _FRACTIONS[column.type], getattr(column, "fsp", 0)
    elif column.type == _BIT:
        kind, size = "bit", column.bits
    elif column.type == _DECIMAL:
        kind, size, scale = "decimal", column.precision, column.decimals
    elif column.type in (_ENUM, _SET):
        kind = "enum" if column.type == _ENUM else "set"
        labels = tuple(column.enum_values[1:] if column.type == _ENUM else column.set_values)
    elif column.type == _GEOMETRY:
        kind = "geometry"
    elif kind == "text" and column.character_set_name == "binary":
        kind, size = "binary", column.max_length if column.type == _STRING else 0
    unsigned = bool(column.unsigned) and kind not in ("decimal", "year", "float", "double")
    return MySqlColumn(column.name, kind, optional, unsigned, size, scale, labels, key)


def described(event: Any) -> tuple[MySqlColumn, ...]:
    """The columns of a table as the event before its rows has them."""
    known = event.optional_metadata
    keys = {*known.simple_primary_key_list, *known.primary_keys_with_prefix}
    found = []
    for number, column in enumerate(event.columns):
        if column.name is None:
            raise ConnectException(
                f"The binary log does not name the columns of {event.schema}.{event.table}: changes from "
                "before binlog_row_metadata was FULL cannot be read. Next: set it, stop the connector, reset "
                "its offsets, and resume it"
            )
        optional = bool(event.null_bitmask[number // 8] & (1 << number % 8))
        found.append(from_log(column, optional, number in keys))
    return tuple(found)
