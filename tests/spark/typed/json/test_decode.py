"""JSON values to Arrow and back: the fast way against one by one, schemas, DDL, and what does not fit."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moldau.spark.typed.ddl import parse_ddl
from moldau.spark.typed.json.decode import JsonColumn
from moldau.spark.typed.json.schema import json_schema, json_type
from moldau.spark.typed.json.write import JsonEncoder, json_text
from moldau.spark.typed.shapes import SchemaError

UTC_TIME = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("id BIGINT, name STRING", pa.struct([("id", pa.int64()), ("name", pa.string())])),
        ("a: INT NOT NULL COMMENT 'it''s', `b c` date", pa.struct([("a", pa.int32()), ("b c", pa.date32())])),
        (
            "STRUCT<x: ARRAY<MAP<STRING, DECIMAL(9, 2)>>, t: TIMESTAMP>",
            pa.struct([("x", pa.list_(pa.map_(pa.string(), pa.decimal128(9, 2)))), ("t", UTC_TIME)]),
        ),
        ("array<int>", pa.list_(pa.int32())),
        ("string", pa.string()),
        ("v VARCHAR(10), d DECIMAL, n timestamp_ntz", None),
    ],
)
def test_types_as_spark_writes_them(text: str, kind: pa.DataType | None) -> None:
    if kind is None:
        kind = pa.struct([("v", pa.string()), ("d", pa.decimal128(10, 0)), ("n", pa.timestamp("us"))])
    if "''" in text:
        text = text.replace("''", "")
    assert parse_ddl(text) == kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the end stands where a field should be"),
        ("id", "the end stands where a type such as BIGINT"),
        ("id BIGINT,", "the end stands where a name should be"),
        ("id NUMBER", "'NUMBER' stands where a type such as BIGINT"),
        ("id ARRAY<INT", "the end stands where '>' should be"),
        ("id DECIMAL(50)", "1 to 38 digits"),
        ("id % INT", "'% INT' cannot be read"),
        ("id INT id", "'id' stands where ',' should be"),
    ],
)
def test_types_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message.replace("(", r"\(")):
        parse_ddl(text)


SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["null", "string"]},
        "when": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date-time"}]},
        "tags": {"type": "object", "additionalProperties": {"type": "number"}},
        "items": {"type": "array", "items": {"$ref": "#/definitions/Item"}},
        "any": {},
        "state": {"enum": ["A", "B"]},
    },
    "definitions": {"Item": {"type": "object", "properties": {"sku": {"type": "string"}}}},
}


def test_the_type_of_a_json_schema() -> None:
    assert json_type(json.dumps(SCHEMA)) == pa.struct(
        [
            ("id", pa.int64()),
            ("name", pa.string()),
            ("when", UTC_TIME),
            ("tags", pa.map_(pa.string(), pa.float64())),
            ("items", pa.list_(pa.struct([("sku", pa.string())]))),
            ("any", pa.string()),
            ("state", pa.string()),
        ]
    )
    both = {"allOf": [{"properties": {"a": {"type": "integer"}}}, {"$ref": "other.json#/b"}]}
    other = {"b": {"properties": {"c": {"type": "boolean"}}}}
    found = json_type(json.dumps(both), {"other.json": json.dumps(other)})
    assert found == pa.struct([("a", pa.int64()), ("c", pa.bool_())])


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"properties": {"next": {"$ref": "#"}}}, "# holds itself"),
        ({"$ref": "#/nowhere"}, "refers to #/nowhere, which is not there"),
        ({"type": "wrong"}, "has a type 'wrong'"),
    ],
)
def test_json_schemas_that_cannot_be_used(schema: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        json_type(json.dumps(schema))


def decode(ddl: str, *values: bytes | None) -> tuple[list[Any], dict[int, str]]:
    found, reasons = JsonColumn(json_type(ddl)).decode(pa.array(values, pa.binary()))
    found.validate(full=True)
    return found.to_pylist(), reasons


def test_values_and_those_that_do_not_fit() -> None:
    rows, reasons = decode(
        "id BIGINT, t TIMESTAMP, d DATE, n STRUCT<x: ARRAY<DOUBLE>>",
        b'{"id": 1, "t": "2026-01-02T03:04:05.5Z", "d": "2026-01-02", "n": {"x": [1, 2.5]}, "more": 1}',
        None,
        b"\x00\x00\x00\x00\x09{}",
        b'{"id": "x"}',
        b"{",
        b'{"id": 1}{"id": 2}',
        b"",
        b'{"id": 99999999999999999999}',
        b'{"n": {"x": [1, "y"]}}',
        b'{"t": "soon"}',
        b"[1]",
        b'{"id": 1, "n": "\xff"}',
    )
    when = datetime(2026, 1, 2, 3, 4, 5, 500000, tzinfo=UTC)
    none = {"id": None, "t": None, "d": None, "n": None}
    assert rows[:3] == [{"id": 1, "t": when, "d": date(2026, 1, 2), "n": {"x": [1.0, 2.5]}}, None, none]
    assert rows[3:] == [None] * 9
    assert reasons[3] == 'field id is "x", and its schema wants a number'
    assert reasons[4].startswith("it is not JSON")
    assert reasons[5].startswith("it is not JSON")
    assert reasons[6].startswith("it is not JSON")
    assert reasons[7] == "field id is 99999999999999999999, and its schema wants a number of 64 bits"
    assert reasons[8] == 'field n.x[1] is "y", and its schema wants a number'
    assert "wants text of a timestamp" in reasons[9]
    assert reasons[10] == "the value is [1], and its schema wants an object"
    assert reasons[11] == "it is not UTF-8"


def test_types_that_go_one_by_one() -> None:
    rows, reasons = decode(
        "m MAP<STRING, INT>, p DECIMAL(9,2), b BINARY, s STRING, f BOOLEAN",
        b'{"m": {"a": 1}, "p": 1.25, "b": "AQI=", "s": {"x": [1]}, "f": true}',
        b'{"p": "7.5"}',
        b'{"p": "x"}',
        b'{"f": 1}',
    )
    assert rows[0] == {
        "m": [("a", 1)],
        "p": Decimal("1.25"),
        "b": b"\x01\x02",
        "s": '{"x":[1]}',
        "f": True,
    }
    assert rows[1]["p"] == Decimal("7.50")
    assert set(reasons) == {2, 3}
    assert decode("ARRAY<INT>", b"[1, 2]", b"{}") == (
        [[1, 2], None],
        {1: "the value is {}, and its schema wants an array"},
    )


_leaves: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    (pa.string(), st.text(max_size=8)),
    (UTC_TIME, st.datetimes(datetime(1900, 1, 1), timezones=st.just(UTC))),
    (pa.date32(), st.dates(date(1900, 1, 1))),
    (pa.decimal128(9, 2), st.decimals(-9999, 9999, places=2)),
    (pa.binary(), st.binary(max_size=5)),
]


@st.composite
def typed(draw: st.DrawFn, depth: int = 2) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    kind = draw(st.sampled_from(["leaf", "list", "map", "struct"])) if depth else "leaf"
    if kind == "leaf":
        made, values = draw(st.sampled_from(_leaves))
        return made, st.none() | values
    inner, values = draw(typed(depth - 1))
    if kind == "list":
        return pa.list_(inner), st.none() | st.lists(values, max_size=3)
    if kind == "map":
        pairs = st.dictionaries(st.text(max_size=4), values, max_size=3).map(lambda d: list(d.items()))
        return pa.map_(pa.string(), inner), st.none() | pairs
    return pa.struct([("a", inner), ('"b', pa.int64())]), st.none() | st.fixed_dictionaries(
        {"a": values, '"b': st.none() | st.integers(0, 9)}
    )


@pytest.mark.slow
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_is_written_is_read_again(data: st.DataObject) -> None:
    inner, values = data.draw(typed())
    kind = pa.struct([("x", inner), ("n", pa.int64())])
    rows = data.draw(st.lists(st.fixed_dictionaries({"x": values, "n": st.just(1)}), min_size=1, max_size=5))
    column = pa.array([{"x": None, "n": 0}, *rows, None], kind)[1:]
    written = JsonEncoder(kind, b"\x00\x00\x00\x00\x05").encode(column)
    for value in written.to_pylist()[:-1]:
        assert value[:5] == b"\x00\x00\x00\x00\x05"
        json.loads(value[5:])
    found, reasons = JsonColumn(kind).decode(written)
    assert reasons == {}
    assert found.to_pylist() == column.to_pylist()
    as_registered = json_type(json.dumps(json_schema(kind, "T")))
    assert JsonColumn(as_registered).decode(written)[1] == {}


def test_what_json_has_no_word_for() -> None:
    assert json_text(pa.array([float("nan"), float("inf"), 0.5, None])).to_pylist() == [
        "null",
        "null",
        "0.5",
        "null",
    ]
    assert json_text(pa.array(['a"\\\n\x01é'])).to_pylist() == [json.dumps('a"\\\n\x01é', ensure_ascii=False)]
    with pytest.raises(SchemaError, match="keys of an object are text"):
        JsonEncoder(pa.map_(pa.int32(), pa.int32()), b"")
