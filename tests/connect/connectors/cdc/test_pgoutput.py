"""Messages of logical replication, as PostgreSQL writes them, and broken ones."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.connectors.cdc.pgoutput import (
    UNCHANGED,
    Begin,
    Change,
    Commit,
    Relation,
    RelationColumn,
    Truncate,
    decode,
    lsn_of,
    lsn_text,
)
from moldau.connect.errors import DataException


def row(*cells: str | None) -> bytes:
    found = struct.pack(">h", len(cells))
    for cell in cells:
        found += b"n" if cell is None else b"t" + struct.pack(">i", len(cell.encode())) + cell.encode()
    return found


RELATION = (
    b"R" + struct.pack(">I", 16385) + b"public\0t\0f" + struct.pack(">h", 1) + b"\1id\0"
    + struct.pack(">Ii", 23, -1)
)  # fmt: skip
MESSAGES = {
    b"B" + struct.pack(">QqI", 5, 0, 7): Begin(5, 946_684_800_000_000, 7),
    b"C\0" + struct.pack(">QQq", 5, 6, 0): Commit(5, 6),
    RELATION: Relation(16385, "public", "t", "f", (RelationColumn("id", 23, -1, True),)),
    b"I" + struct.pack(">I", 9) + b"N" + row("ä", None): Change("c", 9, None, ("ä", None)),
    b"U" + struct.pack(">I", 9) + b"N" + row("1"): Change("u", 9, None, ("1",)),
    b"U" + struct.pack(">I", 9) + b"K" + row("0") + b"N" + row("1"): Change("u", 9, ("0",), ("1",), True),
    b"U" + struct.pack(">I", 9) + b"N\0\1u": Change("u", 9, None, (UNCHANGED,)),
    b"D" + struct.pack(">I", 9) + b"O" + row("1"): Change("d", 9, ("1",), None),
    b"T" + struct.pack(">IBII", 2, 0, 8, 9): Truncate((8, 9)),
    b"Yanything": None,
}


@pytest.mark.parametrize("raw", MESSAGES)
def test_messages(raw: bytes) -> None:
    assert decode(raw) == MESSAGES[raw]


@pytest.mark.parametrize("raw", [each for each in MESSAGES if each[:1] not in b"Y"])
def test_a_message_that_is_cut_short_is_refused(raw: bytes) -> None:
    needed = {b"C": 18}.get(raw[:1], len(raw))  # the time of a commit is not read
    for end in range(1, needed):
        with pytest.raises(DataException):
            decode(raw[:end])


@given(st.integers(0, 2**64 - 1))
def test_places_in_the_log(lsn: int) -> None:
    assert lsn_of(lsn_text(lsn)) == lsn
