"""Arrow columns to Avro values, read again by fastavro and by our own reader."""

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moldau.spark.typed.avro.decode import AvroDecoder
from moldau.spark.typed.avro.schema import parse
from moldau.spark.typed.avro.write import AvroEncoder, avro_schema
from moldau.spark.typed.shapes import SchemaError
from moldau.spark.write.rows import pieces_of

SMALL = st.integers(-(2**31), 2**31 - 1)
LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int32(), SMALL),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.string(), st.text(max_size=10)),
    (pa.binary(), st.binary(max_size=10)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.decimal128(9, 2), st.decimals(-9999999, 9999999, places=2)),
]


@st.composite
def typed(draw: st.DrawFn, depth: int = 2) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    kind = draw(st.sampled_from(["leaf", "list", "map", "struct"])) if depth else "leaf"
    if kind == "leaf":
        made, values = draw(st.sampled_from(LEAVES))
        return made, st.none() | values
    inner, values = draw(typed(depth - 1))
    if kind == "list":
        return pa.list_(inner), st.none() | st.lists(values, max_size=3)
    if kind == "map":
        pairs = st.dictionaries(st.text(max_size=4), values, max_size=3).map(lambda d: list(d.items()))
        return pa.map_(pa.string(), inner), st.none() | pairs
    second, others = draw(typed(depth - 1))
    return (
        pa.struct([("a", inner), ("b", second)]),
        st.none() | st.fixed_dictionaries({"a": values, "b": others}),
    )


def plain(value: Any, kind: pa.DataType) -> Any:
    """As fastavro shows it: a map is a dict."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: plain(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind):
        return [plain(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: plain(value[field.name], field.type) for field in kind}
    return value


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_is_written_is_read_by_fastavro_and_by_us(data: st.DataObject) -> None:
    first, values = data.draw(typed())
    kind = pa.struct([("x", first), pa.field("n", pa.int64(), nullable=False)])
    rows = data.draw(st.lists(st.fixed_dictionaries({"x": values, "n": SMALL}), min_size=1, max_size=6))
    text = json.dumps(avro_schema(kind, "Top"))
    column = pa.array([{"x": None, "n": 0}, *rows, None], kind)[1:]
    found = AvroEncoder(parse(text), kind, b"\x00\x00\x00\x00\x07").encode(column)
    found.validate(full=True)
    assert found[-1].as_py() is None
    schema = fastavro.parse_schema(json.loads(text))
    for value, row in zip(found.to_pylist(), rows, strict=False):
        stream = io.BytesIO(value)
        assert stream.read(5) == b"\x00\x00\x00\x00\x07"
        assert fastavro.schemaless_reader(stream, schema, None) == plain(row, kind)
        assert not stream.read()
    zeros = np.zeros(len(found), np.int64)
    decoder = AvroDecoder(parse(text))
    again, reasons = decoder.decode(pieces_of(found, "v"), zeros, zeros + 5, lambda _: parse(text))
    assert reasons == {}
    assert again.to_pylist() == column.to_pylist()


def encode(schema: Any, column: pa.Array) -> list[Any]:
    found = AvroEncoder(parse(json.dumps(schema)), column.type).encode(column)
    parsed = fastavro.parse_schema(schema)
    return [
        None if value is None else fastavro.schemaless_reader(io.BytesIO(value), parsed, None)
        for value in found.to_pylist()
    ]


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


def test_a_schema_of_ones_own() -> None:
    schema = record(
        {"name": "state", "type": {"type": "enum", "name": "S", "symbols": ["A", "B"]}},
        {"name": "added", "type": {"type": "array", "items": "int"}, "default": [1, 2]},
        {"name": "when", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "wide", "type": "double"},
        {"name": "code", "type": {"type": "fixed", "name": "F", "size": 2}},
        {
            "name": "sum",
            "type": {"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 8},
        },
        {"name": "one", "type": ["int"]},
    )
    when = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    row = {"wide": 3, "state": "B", "when": when, "code": b"xy", "sum": Decimal(-5), "one": 7}
    kind = pa.struct(
        [
            ("wide", pa.int32()),
            ("state", pa.string()),
            ("when", pa.timestamp("us", tz="UTC")),
            ("code", pa.binary()),
            ("sum", pa.decimal128(8, 0)),
            ("one", pa.int32()),
        ]
    )
    assert encode(schema, pa.array([row], kind)) == [row | {"added": [1, 2], "wide": 3.0}]


@pytest.mark.parametrize(
    ("field", "values", "message"),
    [
        ("long", pa.array([1, None]), "x is null in a row, and its schema does not allow that"),
        ("int", pa.array([2**40]), "x: a value does not fit its type"),
        ("long", pa.array(["a"]), "x: it is string, and the schema wants what Arrow calls int64"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.array(["B"]), "'B' is no symbol of the enum E"),
        ({"type": "fixed", "name": "F", "size": 2}, pa.array([b"abc"]), "x has another size in a row"),
        ({"type": "array", "items": "int"}, pa.array([1]), "and the schema has an array"),
        (["int", "string"], pa.array([1]), "a union of several types cannot be written"),
        ({"type": "int", "logicalType": "date"}, pa.array([1]), "the schema has a date"),
    ],
)
def test_what_cannot_be_written(field: Any, values: pa.Array, message: str) -> None:
    column = pa.StructArray.from_arrays([values], ["x"])
    with pytest.raises(SchemaError, match=message):
        encode(record({"name": "x", "type": field}), column)


def test_columns_and_fields_that_do_not_meet() -> None:
    column = pa.StructArray.from_arrays([pa.array([1])], ["x"])
    with pytest.raises(SchemaError, match="has no field 'x'"):
        encode(record(), column)
    more = record({"name": "x", "type": "long"}, {"name": "y", "type": "long"})
    with pytest.raises(SchemaError, match="y: the schema wants it, and there is no such column"):
        encode(more, column)
    with pytest.raises(SchemaError, match="keys of an Avro map are strings"):
        avro_schema(pa.map_(pa.int32(), pa.int32()), "m")


def test_names_are_kept_from_the_version_before() -> None:
    kind = pa.struct([("a", pa.struct([("b", pa.int32())])), ("d", pa.date32())])
    before = {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "a", "type": ["null", {"type": "record", "name": "Inner", "fields": []}]}],
    }
    made = avro_schema(kind, "orders_value", before)
    assert (made["name"], made["namespace"]) == ("Order", "shop")
    assert made["fields"][0]["type"][1]["name"] == "Inner"
    assert avro_schema(kind, "orders_value")["fields"][0]["type"][1]["name"] == "orders_value_a"
    assert encode(made, pa.array([{"a": None, "d": date(2026, 1, 1)}], kind)) == [
        {"a": None, "d": date(2026, 1, 1)}
    ]
