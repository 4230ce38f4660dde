"""Which row a record goes to, and which cells its value gives.

The key is the row key: a text, a number, bytes, or fields that are joined. Each field of the value is a
column of the default family; a field that has fields itself is a family of its own, and they are its columns.

Invariant: pure; two different keys never give one row, unless the delimiter is empty on purpose; what is no
row is a DataException, and no error tells a value.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from moldau.connect.connectors.hbase.values import as_text
from moldau.connect.data.schema import Schema, Struct
from moldau.connect.errors import ConnectException, DataException
from moldau.connect.records import SinkRecord

#: What HBase's format has room for.
MAX_KEY_BYTES = 32_767
MAX_FAMILY_BYTES = 127
#: The column of a value that has no fields.
SINGLE_VALUE = "KAFKA_VALUE"
_TABLE = re.compile(r"(?:\w[\w.-]*:)?\w[\w.-]*", re.ASCII)
_Field = tuple[Schema | None, object]
Encode = Callable[[Schema | None, object], bytes]


@dataclass(frozen=True, slots=True)
class Column:
    family: str
    qualifier: str

    @property
    def raw(self) -> bytes:
        return f"{self.family}:{self.qualifier}".encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Row:
    """What becomes of the row of one record: cells that are written, columns that are emptied, or its end."""

    table: str
    key: bytes
    #: The version of what is written: an older one changes nothing where a newer one is.
    version: int
    cells: Mapping[Column, bytes]
    emptied: tuple[Column, ...] = ()
    deleted: bool = False

    @property
    def families(self) -> set[str]:
        return {column.family for column in (*self.cells, *self.emptied)}

    @property
    def size(self) -> int:
        return len(self.key) + sum(len(value) + 64 for value in self.cells.values())


@dataclass(frozen=True, slots=True)
class Layout:
    """How records become rows."""

    table_format: str
    #: Empty: the topic's name.
    family: str
    key_fields: tuple[str, ...]
    delimiter: str
    encode: Encode
    by_offset: bool
    empties_nulls: bool

    def row(self, record: SinkRecord) -> Row:
        table = table_name(self.table_format, record.topic)
        key, version = self._key(record), self._version(record)
        if record.value is None:
            return Row(table, key, version, {}, deleted=True)
        cells: dict[Column, bytes] = {}
        emptied: list[Column] = []
        for column, (schema, value) in self._columns(record):
            if value is not None:
                cells[column] = self.encode(schema, value)
            elif self.empties_nulls:
                emptied.append(column)
        if not cells and not emptied:
            raise DataException("The value has nothing to write, and a row without cells cannot be")
        return Row(table, key, version, cells, tuple(emptied))

    def default_family(self, topic: str) -> str:
        return self.family or topic

    def _version(self, record: SinkRecord) -> int:
        if self.by_offset:
            return record.offset + 1
        if record.timestamp is None or record.timestamp < 0:
            raise DataException("The record has no timestamp. Next: write.time=offset")
        return record.timestamp

    def _key(self, record: SinkRecord) -> bytes:
        if record.key is None:
            raise DataException("The record has no key")
        fields = _fields(record.key_schema, record.key)
        found = as_text(record.key_schema, record.key) if fields is None else self._joined(fields)
        if not 0 < len(found) <= MAX_KEY_BYTES:
            raise DataException(f"A row key has 1 to {MAX_KEY_BYTES} bytes, this one {len(found)}")
        return found

    def _joined(self, fields: Mapping[str, _Field]) -> bytes:
        names: Sequence[str] = self.key_fields or list(fields)
        parts: list[bytes] = []
        for name in names:
            schema, value = fields.get(name, (None, None))
            if value is None:
                raise DataException(f"The key has nothing in {name}, a part of the row key")
            parts.append(as_text(schema, value))
        delimiter = self.delimiter.encode()
        if delimiter and any(delimiter in part for part in parts[:-1]):
            raise DataException("A part of the key has the delimiter in it: two keys could become one row")
        return delimiter.join(parts)

    def _columns(self, record: SinkRecord) -> Iterator[tuple[Column, _Field]]:
        default = self.default_family(record.topic)
        fields = _fields(record.value_schema, record.value)
        if fields is None:
            yield _column(default, SINGLE_VALUE), (record.value_schema, record.value)
            return
        for name, (schema, value) in fields.items():
            inner = _fields(schema, value)
            if inner is None:
                yield _column(default, name), (schema, value)
            else:
                for each, found in inner.items():
                    yield _column(name, each), found


def table_name(table_format: str, topic: str) -> str:
    found = table_format.replace("${topic}", topic)
    if not _TABLE.fullmatch(found):
        raise ConnectException(f"{found} cannot be the name of a table. Next: table.name.format")
    return found


def _column(family: str, qualifier: str) -> Column:
    if not is_family(family):
        raise DataException(f"{family[:MAX_FAMILY_BYTES]} cannot be the name of a column family")
    return Column(family, qualifier)


def is_family(name: str) -> bool:
    is_short = 0 < len(name.encode("utf-8", "replace")) <= MAX_FAMILY_BYTES
    return is_short and ":" not in name and name.isprintable() and not name.startswith(".")


def _fields(schema: Schema | None, value: object) -> dict[str, _Field] | None:
    if isinstance(value, Struct):
        return {each.name: (each.schema, value.get(each.name)) for each in value.schema.fields}
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            raise DataException("Names of columns are texts, and a map has other keys")
        inner = None if schema is None else schema.values
        return {name: (inner, item) for name, item in value.items()}
    return None
