"""Row keys, columns and versions for records."""

from dataclasses import replace

import pytest

from moldau.connect.connectors.hbase.rows import Column, Layout, Row, table_name
from moldau.connect.connectors.hbase.values import as_binary, as_text
from moldau.connect.data.schema import Schema, Struct, map_of, struct
from moldau.connect.data.types import Type
from moldau.connect.errors import ConnectException, DataException
from moldau.connect.records import SinkRecord

TEXT = Schema(Type.STRING)
PLAIN = Layout("${topic}", "cf", (), "|", as_text, by_offset=True, empties_nulls=True)


def record(key: object, value: object, **more: object) -> SinkRecord:
    return SinkRecord(topic="t", partition=0, offset=4, key=key, value=value, **more)  # type: ignore[arg-type]


def shown(row: Row) -> dict[str, bytes]:
    return {column.raw.decode(): value for column, value in row.cells.items()}


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("a|b", b"a|b"),
        (b"\x00\xff", b"\x00\xff"),
        (7, b"7"),
        (True, b"true"),
        ({"b": "x", "a": 1}, b"x|1"),
        ({"b": "x", "a": "1|2"}, b"x|1|2"),  # the last part may have it: the first ones end before it
        (Struct(struct({"id": TEXT, "n": Schema(Type.INT32)}), {"id": "x", "n": 2}), b"x|2"),
    ],
)
def test_row_keys(key: object, wanted: bytes) -> None:
    assert PLAIN.row(record(key, "v")).key == wanted


def test_row_keys_of_some_fields() -> None:
    key = {"b": "x", "a": 1, "c": 3}
    assert replace(PLAIN, key_fields=("a", "b")).row(record(key, "v")).key == b"1|x"
    assert replace(PLAIN, delimiter="").row(record(key, "v")).key == b"x13"


def test_columns() -> None:
    value = {"name": "ann", "n": 5, "address": {"city": "Prague", "deep": {"x": 1}}, "tags": [1]}
    assert shown(PLAIN.row(record("k", value))) == {
        "cf:name": b"ann",
        "cf:n": b"5",
        "address:city": b"Prague",
        "address:deep": b'{"x":1}',
        "cf:tags": b"[1]",
    }
    assert shown(PLAIN.row(record("k", 5))) == {"cf:KAFKA_VALUE": b"5"}
    assert shown(replace(PLAIN, family="").row(record("k", {"a:b": ""}))) == {"t:a:b": b""}


def test_types_of_nested_values_come_from_their_schemas() -> None:
    schema = struct({"counts": map_of(TEXT, Schema(Type.INT16)), "in": struct({"n": Schema(Type.INT32)})})
    inner = Struct(struct({"n": Schema(Type.INT32)}), {"n": 1})
    value = Struct(schema, {"counts": {"x": 1}, "in": inner})
    row = replace(PLAIN, encode=as_binary).row(record("k", value, value_schema=schema))
    assert shown(row) == {"counts:x": b"\x00\x01", "in:n": b"\x00\x00\x00\x01"}


def test_nulls_and_tombstones() -> None:
    row = PLAIN.row(record("k", {"a": None, "b": 1}))
    assert (shown(row), row.emptied, row.deleted) == ({"cf:b": b"1"}, (Column("cf", "a"),), False)
    kept = replace(PLAIN, empties_nulls=False).row(record("k", {"a": None, "b": 1}))
    assert (shown(kept), kept.emptied) == ({"cf:b": b"1"}, ())
    gone = PLAIN.row(record("k", None))
    assert (gone.cells, gone.deleted, gone.families) == ({}, True, set())


def test_versions() -> None:
    by_time = replace(PLAIN, by_offset=False)
    assert PLAIN.row(record("k", 1, timestamp=99)).version == 5
    assert by_time.row(record("k", 1, timestamp=99)).version == 99
    for bad in (None, -1):
        with pytest.raises(DataException, match="no timestamp"):
            by_time.row(record("k", 1, timestamp=bad))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, 1),
        ("", 1),
        ("k" * 32_768, 1),
        ({"a": "x|y", "b": 1}, 1),
        ({"a": None}, 1),
        ({}, 1),
        ("k", {}),
        ("k", {"a:b": {"c": 1}}),
        ("k", {"": {"c": 1}}),
        ("k", {"f" * 128: {"c": 1}}),
        ("k", {"secret\n": {"c": 1}}),
        ("k", {1: 2}),
    ],
)
def test_what_is_no_row(key: object, value: object) -> None:
    with pytest.raises(DataException):
        PLAIN.row(record(key, value))


def test_names_of_tables() -> None:
    assert table_name("shop:${topic}", "orders.eu-1") == "shop:orders.eu-1"
    for bad in ("-x", "a/b", "a:b:c", "größer", ""):
        with pytest.raises(ConnectException, match="cannot be the name"):
            table_name("${topic}", bad)
