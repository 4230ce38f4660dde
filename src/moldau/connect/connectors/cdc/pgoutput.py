"""The messages of PostgreSQL's logical replication (plugin pgoutput, protocol version 1), decoded.

Invariant: pure; a message that is cut short or unknown is a DataException, never a wrong value.
"""

import struct as binary
from dataclasses import dataclass

from moldau.connect.errors import DataException

#: PostgreSQL counts microseconds from 2000 on.
EPOCH_2000_US = 946_684_800_000_000


class Unchanged:
    """A large value that an update did not touch and that PostgreSQL therefore does not send."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED = Unchanged()
Cell = str | None | Unchanged


@dataclass(frozen=True, slots=True)
class Begin:
    final_lsn: int
    commit_us: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    lsn: int
    end_lsn: int


@dataclass(frozen=True, slots=True)
class RelationColumn:
    name: str
    type_oid: int
    modifier: int
    is_key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    oid: int
    schema: str
    table: str
    #: d: by primary key, n: nothing, f: all columns, i: by an index.
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """``op`` is c, u or d. ``old_is_key`` says that only the columns of the key are there."""

    op: str
    relation: int
    old: tuple[Cell, ...] | None
    new: tuple[Cell, ...] | None
    old_is_key: bool = False


@dataclass(frozen=True, slots=True)
class Truncate:
    relations: tuple[int, ...]


Message = Begin | Commit | Relation | Change | Truncate


class _Reader:
    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.at = 1

    def number(self, form: str) -> int:
        size = binary.calcsize(form)
        try:
            (found,) = binary.unpack_from(form, self.raw, self.at)
        except binary.error as error:
            raise DataException("A message of logical replication is cut short") from error
        self.at += size
        return int(found)

    def text(self) -> str:
        end = self.raw.find(b"\0", self.at)
        if end < 0:
            raise DataException("A message of logical replication is cut short")
        found = self.raw[self.at : end].decode()
        self.at = end + 1
        return found

    def letter(self) -> str:
        return chr(self.number(">B"))

    def row(self) -> tuple[Cell, ...]:
        return tuple(self._cell() for _ in range(self.number(">h")))

    def _cell(self) -> Cell:
        kind = self.letter()
        if kind == "n":
            return None
        if kind == "u":
            return UNCHANGED
        if kind != "t":
            raise DataException(f"A column of logical replication has the unknown form {kind!r}")
        size = self.number(">i")
        found = self.raw[self.at : self.at + size]
        if size < 0 or len(found) < size:
            raise DataException("A message of logical replication is cut short")
        self.at += size
        return found.decode()


def decode(raw: bytes) -> Message | None:
    """A message, or None for a kind that says nothing about rows (types, origins, messages of others)."""
    kind, reader = raw[:1], _Reader(raw)
    match kind:
        case b"B":
            return Begin(reader.number(">Q"), reader.number(">q") + EPOCH_2000_US, reader.number(">I"))
        case b"C":
            reader.number(">B")
            return Commit(reader.number(">Q"), reader.number(">Q"))
        case b"R":
            return _relation(reader)
        case b"I":
            relation = reader.number(">I")
            reader.letter()
            return Change("c", relation, None, reader.row())
        case b"U":
            return _update(reader)
        case b"D":
            relation = reader.number(">I")
            by_key = reader.letter() == "K"
            return Change("d", relation, reader.row(), None, by_key)
        case b"T":
            count = reader.number(">I")
            reader.number(">B")
            return Truncate(tuple(reader.number(">I") for _ in range(count)))
        case b"Y" | b"O" | b"M":
            return None
    raise DataException(f"Logical replication has an unknown message {kind!r}")


def _relation(reader: _Reader) -> Relation:
    oid, schema, table = reader.number(">I"), reader.text(), reader.text()
    identity = reader.letter()
    columns = []
    for _ in range(reader.number(">h")):
        is_key = reader.number(">B") & 1
        name = reader.text()
        columns.append(RelationColumn(name, reader.number(">I"), reader.number(">i"), bool(is_key)))
    return Relation(oid, schema or "pg_catalog", table, identity, tuple(columns))


def _update(reader: _Reader) -> Change:
    relation, kind = reader.number(">I"), reader.letter()
    old, by_key = None, False
    if kind in ("K", "O"):
        old, by_key = reader.row(), kind == "K"
        kind = reader.letter()
    if kind != "N":
        raise DataException(f"An update of logical replication has the unknown part {kind!r}")
    return Change("u", relation, old, reader.row(), by_key)


def lsn_of(text: str) -> int:
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
