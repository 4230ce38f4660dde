"""Protobuf values to Arrow and back: types, presence, schemas that follow each other, and broken bytes."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moldau.schemas.protobuf import descriptors
from moldau.schemas.protobuf.descriptors import message_class
from moldau.spark.typed.protobuf.decode import ProtobufColumn
from moldau.spark.typed.protobuf.schema import message_at, message_descriptor
from moldau.spark.typed.protobuf.write import ProtobufEncoder, message_indexes, proto_text
from moldau.spark.typed.registry import SchemaText
from moldau.spark.typed.shapes import SchemaError

ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Order {
  int64 id = 1;
  optional string note = 2;
  State state = 3;
  repeated Item items = 4;
  map<string, double> sums = 5;
  google.protobuf.Timestamp when = 6;
  google.protobuf.Int32Value maybe = 7;
  uint64 large = 8;
  oneof choice { string left = 9; Item right = 10; }
  repeated int32 packed = 11;
  bytes raw = 12;
  enum State { NEW = 0; PAID = 1; }
  message Item { string sku = 1; uint32 n = 2; }
}
message Other { string x = 1; message Deep { int32 y = 1; } }
"""
SCHEMA = SchemaText(ORDER)


def order(**fields: Any) -> bytes:
    made = message_class(message_descriptor(SCHEMA, None))(**fields)
    return bytes(made.SerializeToString())


def test_types_and_values() -> None:
    column = ProtobufColumn(SCHEMA, None, None)
    full = order(
        id=-5,
        note="",
        state=1,
        items=[{"sku": "a", "n": 2**32 - 1}],
        sums={"x": 1.5},
        when={"seconds": 1, "nanos": 2000},
        maybe={"value": 0},
        large=2**64 - 1,
        right={"sku": "r"},
        packed=[1, -1],
        raw=b"\x00",
    )
    found, reasons = column.decode(pa.array([full, b"", None, b"\xff", order(id=7)[:-1]], pa.binary()))
    assert str(found.type.field("sums").type) == "map<string, double>"
    rows = found.to_pylist()
    assert rows[0] == {
        "id": -5,
        "note": "",
        "state": "PAID",
        "items": [{"sku": "a", "n": 2**32 - 1}],
        "sums": [("x", 1.5)],
        "when": datetime(1970, 1, 1, 0, 0, 1, 2, tzinfo=UTC),
        "maybe": 0,
        "large": Decimal(2**64 - 1),
        "left": None,
        "right": {"sku": "r", "n": 0},
        "packed": [1, -1],
        "raw": b"\x00",
    }
    assert rows[1]["note"] is None
    assert (rows[1]["id"], rows[1]["state"], rows[1]["items"]) == (0, "NEW", [])
    assert rows[2] is None
    assert set(reasons) == {3, 4}
    assert reasons[3].startswith("it is no shop.Order")


def test_messages_by_name_and_by_place() -> None:
    assert message_descriptor(SCHEMA, "Deep").full_name == "shop.Other.Deep"
    assert message_at(SCHEMA, (1, 0)).full_name == "shop.Other.Deep"
    assert descriptors.message_indexes(message_descriptor(SCHEMA, "Deep")) == (1, 0)
    assert message_indexes(SCHEMA, None) == b"\x00"
    assert message_indexes(SCHEMA, "shop.Other") == b"\x02\x02"
    with pytest.raises(SchemaError, match=r"has no message 'Nope': there are shop.Order, shop.Other"):
        message_descriptor(SCHEMA, "Nope")
    with pytest.raises(SchemaError, match=r"no message at \[7\]"):
        message_at(SCHEMA, (7,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("message {", "does not compile: schema:1"),
        ('syntax = "proto3";', "has no message"),
        ('syntax = "proto3"; message N { N next = 1; }', "the message N holds itself"),
        ('syntax = "proto3"; import "gone.proto"; message N {}', "does not compile"),
    ],
)
def test_schemas_that_cannot_be_used(text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        ProtobufColumn(SchemaText(text), None, None)


def test_imports_of_other_schemas() -> None:
    money = 'syntax = "proto3"; message Money { int64 cents = 1; }'
    text = 'syntax = "proto3"; import "shop/money.proto"; message Order { Money price = 1; }'
    column = ProtobufColumn(SchemaText(text, (("shop/money.proto", money),)), None, None)
    assert column.type == pa.struct([("price", pa.struct([("cents", pa.int64())]))])
    with pytest.raises(SchemaError, match="is not a usable name of an import"):
        ProtobufColumn(SchemaText(text, (("../money.proto", money),)), None, None)


KIND = pa.struct(
    [
        ("id", pa.int64()),
        ("when", pa.timestamp("us", tz="UTC")),
        ("line_items", pa.list_(pa.struct([("sku", pa.string()), ("ok", pa.bool_())]))),
        ("sums", pa.map_(pa.string(), pa.float64())),
    ]
)
ROWS = [
    {
        "id": 1,
        "when": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        "line_items": [{"sku": "a", "ok": True}, {"sku": None, "ok": None}],
        "sums": [("x", 1.5)],
    },
    None,
]


def test_what_is_written_is_read_again() -> None:
    schema = SchemaText(proto_text(KIND, "Orders"))
    written = ProtobufEncoder(schema, None, KIND, b"").encode(pa.array(ROWS, KIND))
    column = ProtobufColumn(schema, None, None)
    assert column.type == KIND
    assert column.decode(written) == (pa.array(ROWS, KIND), {})


def test_numbers_are_kept_from_the_version_before() -> None:
    first = SchemaText(proto_text(KIND, "Orders"))
    changed = pa.struct([("added", pa.int32()), ("sums", KIND.field("sums").type), ("id", pa.int64())])
    second = message_descriptor(SchemaText(proto_text(changed, "Elsewhere", first)), None)
    assert second.name == "Orders"
    assert {field.name: field.number for field in second.fields} == {"added": 5, "sums": 4, "id": 1}
    of_others = proto_text(pa.struct([("items", KIND.field("line_items").type)]), "X", SCHEMA)
    assert "package shop;" in of_others
    assert "repeated Item items = 4;" in of_others


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (pa.struct([("d", pa.decimal128(9, 2))]), "d is decimal128"),
        (pa.struct([("l", pa.list_(pa.list_(pa.int32())))]), "l is list"),
        (pa.int64(), "a Protobuf value is a message"),
    ],
)
def test_what_protobuf_has_no_type_for(kind: pa.DataType, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        proto_text(kind, "X")


def test_columns_that_do_not_fit_a_message() -> None:
    with pytest.raises(SchemaError, match=r"nope: the message shop\.Order has no such field"):
        ProtobufEncoder(SCHEMA, None, pa.struct([("nope", pa.int32())]), b"")
    with pytest.raises(SchemaError, match="items is int32, and the schema has another kind"):
        ProtobufEncoder(SCHEMA, None, pa.struct([("items", pa.int32())]), b"")
    encoder = ProtobufEncoder(SCHEMA, None, pa.struct([("id", pa.string())]), b"")
    with pytest.raises(SchemaError, match=r"a row does not fit shop\.Order"):
        encoder.encode(pa.array([{"id": "x"}]))


MANY = SchemaText(
    """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message M {
  int32 a = 1; sint64 b = 2; bool c = 3; string d = 40000; bytes e = 5; fixed32 f = 6; sfixed64 g = 7;
  double h = 8; float i = 9; E k = 10; optional uint64 l = 11; M2 m = 12; repeated M2 n = 13;
  repeated sint32 o = 14; repeated string p = 15; map<int32, M2> q = 16; map<string, E> r = 17;
  google.protobuf.Timestamp s = 18; google.protobuf.StringValue t = 19; repeated E u = 20;
  oneof v { int32 w = 21; M2 x = 22; } repeated fixed64 y = 23; repeated google.protobuf.Timestamp z = 24;
  enum E { ZERO = 0; ONE = 1; MINUS = -1; }
  message M2 {
    int64 a = 1; repeated M3 b = 2;
    message M3 { optional string a = 1; sfixed32 c = 3; uint32 d = 4; }
  }
}
"""
)
_int32 = st.integers(-(2**31), 2**31 - 1)
_int64 = st.integers(-(2**63), 2**63 - 1)
_m3 = st.fixed_dictionaries(
    {}, optional={"a": st.text(max_size=3), "c": _int32, "d": st.integers(0, 2**32 - 1)}
)
_m2 = st.fixed_dictionaries({}, optional={"a": _int64, "b": st.lists(_m3, max_size=3)})
_enum = st.sampled_from([0, 1, -1]) | st.integers(0, 3)
_when = st.fixed_dictionaries(
    {"seconds": st.integers(-(10**10), 10**10), "nanos": st.integers(0, 999_999_999)}
)
_messages = st.fixed_dictionaries(
    {},
    optional={
        "a": _int32,
        "b": _int64,
        "c": st.booleans(),
        "d": st.text(max_size=5),
        "e": st.binary(max_size=5),
        "f": st.integers(0, 2**32 - 1),
        "g": _int64,
        "h": st.floats(allow_nan=False),
        "i": st.floats(width=32, allow_nan=False),
        "k": _enum,
        "l": st.integers(0, 2**64 - 1),
        "m": _m2,
        "n": st.lists(_m2, max_size=3),
        "o": st.lists(_int32, max_size=3),
        "p": st.lists(st.text(max_size=3), max_size=3),
        "q": st.dictionaries(_int32, _m2, max_size=1),
        "r": st.dictionaries(st.text(max_size=3), st.sampled_from([0, 1]), max_size=1),
        "s": _when,
        "t": st.builds(lambda text: {"value": text}, st.text(max_size=3)),
        "u": st.lists(_enum, max_size=3),
        "w": _int32,
        "y": st.lists(st.integers(0, 2**64 - 1), max_size=2),
        "z": st.lists(_when, max_size=2),
    },
)


def both_ways(values: list[bytes]) -> tuple[pa.Array, dict[int, str], pa.Array, dict[int, str]]:
    column = ProtobufColumn(MANY, None, None)
    given_values = pa.array(values, pa.binary())
    fast = column.decode(given_values)
    column._tables = None
    return (*fast, *column.decode(given_values))


def without_order(column: pa.Array) -> list[Any]:
    """Protobuf's library gives the entries of a map in any order that it likes."""
    rows = column.to_pylist()
    return [
        row if row is None else {**row, "q": sorted(row["q"], key=repr), "r": sorted(row["r"], key=repr)}
        for row in rows
    ]


@pytest.mark.slow
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(_messages, min_size=1, max_size=4))
def test_the_kernel_reads_what_protobufs_own_library_reads(rows: list[dict[str, Any]]) -> None:
    made = message_class(message_descriptor(MANY, None))
    values = [bytes(made(**row).SerializeToString()) for row in rows]
    # Parts of a message may come in any order, and twice.
    values += [one + other for one, other in zip(values, reversed(values), strict=True)]
    fast, bad, slow, slow_bad = both_ways(values)
    fast.validate(full=True)
    assert bad == slow_bad == {}
    assert without_order(fast) == without_order(slow)


@pytest.mark.slow
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(_messages, st.data())
def test_broken_bytes_are_told_by_both(row: dict[str, Any], data: st.DataObject) -> None:
    made = message_class(message_descriptor(MANY, None))
    value = bytearray(made(**row).SerializeToString())
    for _ in range(data.draw(st.integers(0, 3))):
        if value:
            value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    del value[data.draw(st.integers(0, len(value))) if data.draw(st.booleans()) else len(value) :]
    good = bytes(made(a=1).SerializeToString())
    fast, bad, slow, slow_bad = both_ways([bytes(value), good])
    assert set(bad) == set(slow_bad)
    assert without_order(fast) == without_order(slow)
