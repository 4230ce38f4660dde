"""What is known of PostgreSQL's tables: their columns, keys and types, as schemas of records.

Invariant: the schemas of a table change only when its columns do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moldau.connect.connectors.cdc.envelope import TableShape, source_schema
from moldau.connect.connectors.cdc.pgoutput import UNCHANGED, Cell, Relation, RelationColumn
from moldau.connect.connectors.cdc.postgresql_types import UNAVAILABLE, Read, TypeInfo, TypeRules
from moldau.connect.data.schema import Schema, Struct
from moldau.connect.data.types import Type

SOURCE = source_schema(
    "io.debezium.connector.postgresql.Source",
    {
        "schema": Schema(Type.STRING),
        "table": Schema(Type.STRING),
        "txId": Schema(Type.INT64, optional=True),
        "lsn": Schema(Type.INT64, optional=True),
        "xmin": Schema(Type.INT64, optional=True),
    },
)
#: Types from this number on are not built in; arrays of built-in types have numbers below it.
_FIRST_OWN_TYPE = 16_384

_TYPES = """
SELECT t.oid::int8, t.typtype::text, CASE WHEN t.typcategory = 'A' THEN t.typelem::int8 ELSE 0 END,
       t.typbasetype::int8,
       ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder)
FROM pg_type t WHERE t.typtype IN ('e', 'd') OR t.typcategory = 'A'
"""
_COLUMNS = """
SELECT a.attname, a.atttypid::int8, a.atttypmod, a.attnotnull,
       EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary
               AND a.attnum = ANY (i.indkey))
FROM pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
ORDER BY a.attnum
"""
_TABLES = """
SELECT c.oid::int8, n.nspname, c.relname, c.relreplident::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
ORDER BY 2, 3
"""


@dataclass(frozen=True, slots=True)
class Table:
    schema: str
    name: str
    columns: tuple[str, ...]
    readers: tuple[Read, ...]
    shape: TableShape

    def row(self, cells: Sequence[Cell], fallback: Sequence[Cell] | None = None) -> Struct:
        """A row of texts as a struct; what was not sent is taken from ``fallback`` if it is known there."""
        values: dict[str, object] = {}
        for number, (name, read, cell) in enumerate(zip(self.columns, self.readers, cells, strict=True)):
            found = cell
            if found is UNCHANGED and fallback is not None:
                found = fallback[number]
            if isinstance(found, str):
                values[name] = read(found)
            elif found is not None:
                values[name] = self._unavailable(name, read)
        return self.shape.row(values)

    def _unavailable(self, name: str, read: Read) -> object:
        field = self.shape.value.field(name)
        texts = field is not None and field.schema.type in (Type.STRING, Type.BYTES, Type.ARRAY)
        return read(UNAVAILABLE) if texts else None


class Catalogue:
    """Asks the database for what the stream does not say: primary keys, and which columns may be null."""

    def __init__(self, prefix: str, decimals: str) -> None:
        self._prefix = prefix
        self._decimals = decimals
        self._types: dict[int, TypeInfo] = {}

    def load_types(self, sql: Any) -> None:
        self._types = {
            oid: TypeInfo(kind, element, base, tuple(labels))
            for oid, kind, element, base, labels in sql.execute(_TYPES).fetchall()
        }

    def relations(self, sql: Any) -> list[Relation]:
        """All tables, as the stream would describe them."""
        found = []
        for oid, schema, name, identity in sql.execute(_TABLES).fetchall():
            columns = tuple(
                RelationColumn(column, kind, modifier, key)
                for column, kind, modifier, _, key in sql.execute(_COLUMNS, (oid,)).fetchall()
            )
            found.append(Relation(oid, schema, name, identity, columns))
        return found

    def table(self, sql: Any, relation: Relation) -> Table:
        if any(c.type_oid >= _FIRST_OWN_TYPE and c.type_oid not in self._types for c in relation.columns):
            self.load_types(sql)
        found = sql.execute(_COLUMNS, (relation.oid,)).fetchall()
        required = {name for name, _, _, not_null, _ in found if not_null}
        keys = [name for name, _, _, _, key in found if key]
        names = {column.name for column in relation.columns}
        if not keys or not names.issuperset(keys):
            by_identity = [column.name for column in relation.columns if column.is_key]
            keys = by_identity if relation.identity in ("d", "i") else []
        rules = TypeRules(self._decimals, self._types)
        columns: list[tuple[str, Schema]] = []
        readers: list[Read] = []
        for column in relation.columns:
            # A delete may bring the key only: other columns are null then, whatever the table says.
            sent = column.name in keys or relation.identity == "f"
            optional = not (column.name in required and sent) and column.name not in keys
            schema, read = rules.column(column.type_oid, column.modifier, optional)
            columns.append((column.name, schema))
            readers.append(read)
        topic = f"{self._prefix}.{relation.schema}.{relation.table}"
        shape = TableShape.of(topic, columns, keys, SOURCE)
        return Table(
            relation.schema, relation.table, tuple(name for name, _ in columns), tuple(readers), shape
        )
