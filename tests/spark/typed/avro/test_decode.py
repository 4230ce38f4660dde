"""Avro values to Arrow, held against fastavro: generated schemas and values, resolution, and broken bytes."""

import io
import json
import os
import subprocess
import sys
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moldau.schemas.avro.types import AvroType
from moldau.spark.typed.avro.decode import AvroDecoder
from moldau.spark.typed.avro.schema import parse
from moldau.spark.typed.shapes import SchemaError
from moldau.spark.write.rows import pieces_of

Schema = Any


def written(schema: Schema, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def decode(
    reader: Schema, values: list[bytes | None], writers: dict[int, Schema] | None = None, ids: Any = None
) -> tuple[pa.Array, dict[int, str]]:
    decoder = AvroDecoder(parse(json.dumps(reader)))
    known = writers or {0: reader}
    count = len(values)
    given_ids = np.zeros(count, np.int64) if ids is None else np.array(ids, np.int64)

    def schema_of(schema_id: int) -> AvroType:
        return parse(json.dumps(known[schema_id]))

    array = pa.array(values, pa.binary())
    found, reasons = decoder.decode(
        pieces_of(array, "value"), given_ids, np.zeros(count, np.int64), schema_of
    )
    found.validate(full=True)
    assert len(found) == count
    assert_declared(found)
    return found, reasons


def assert_declared(array: pa.Array) -> None:
    """A field that is declared never null has no null where what holds it is there."""
    there = array.filter(array.is_valid())
    if pa.types.is_struct(array.type):
        parts = [(field, there.field(index)) for index, field in enumerate(array.type)]
    elif pa.types.is_list(array.type):
        parts = [(array.type.value_field, there.flatten())]
    elif pa.types.is_map(array.type):
        parts = [(array.type.key_field, there.keys), (array.type.item_field, there.items)]
    else:
        return
    for field, part in parts:
        assert field.nullable or not part.null_count, field
        assert_declared(part)


def record(*fields: tuple[str, Schema], name: str = "R") -> Schema:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


# Schemas and values that fit them, and what Arrow is expected to show.

_names = iter(f"n{index}" for index in range(10**9))

_leaves = st.sampled_from(
    [
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "string",
        "bytes",
        "date",
        "millis",
        "micros",
        "enum",
        "fixed",
        "decimal",
    ]
)


def _leaf(kind: str) -> tuple[Schema, st.SearchStrategy[Any]]:
    match kind:
        case "boolean":
            return "boolean", st.booleans()
        case "int":
            return "int", st.integers(-(2**31), 2**31 - 1)
        case "long":
            return "long", st.integers(-(2**63), 2**63 - 1)
        case "float":
            return "float", st.floats(width=32, allow_nan=False)
        case "double":
            return "double", st.floats(allow_nan=False)
        case "string":
            return "string", st.text(max_size=20)
        case "bytes":
            return "bytes", st.binary(max_size=20)
        case "date":
            return {"type": "int", "logicalType": "date"}, st.dates()
        case "millis" | "micros":
            when = st.datetimes().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))
            return {"type": "long", "logicalType": f"local-timestamp-{kind}"}, when
        case "enum":
            symbols = ["A", "B", "C"]
            return {"type": "enum", "name": next(_names), "symbols": symbols}, st.sampled_from(symbols)
        case "fixed":
            return {"type": "fixed", "name": next(_names), "size": 5}, st.binary(min_size=5, max_size=5)
    numbers = st.decimals(min_value=-999, max_value=999, places=2, allow_nan=False)
    return {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, numbers


@st.composite
def typed(draw: st.DrawFn, depth: int = 3) -> tuple[Schema, st.SearchStrategy[Any]]:
    kind = draw(st.sampled_from(["leaf", "leaf", "nullable", "array", "map", "record"]))
    if depth == 0 or kind == "leaf":
        return _leaf(draw(_leaves))
    schema, values = draw(typed(depth - 1))
    if kind == "nullable":
        if isinstance(schema, list):
            return schema, values
        return draw(st.sampled_from([["null", schema], [schema, "null"]])), st.none() | values
    if kind == "array":
        return {"type": "array", "items": schema}, st.lists(values, max_size=4)
    if kind == "map":
        return {"type": "map", "values": schema}, st.dictionaries(st.text(max_size=5), values, max_size=3)
    second_schema, second_values = draw(typed(depth - 1))
    made = record(("a", schema), ("b", second_schema), name=next(_names))
    return made, st.fixed_dictionaries({"a": values, "b": second_values})


def shown(value: Any) -> Any:
    """As Arrow shows it: a map is a list of pairs."""
    if isinstance(value, pa.MapScalar):
        return None if not value.is_valid else {k.as_py(): shown(v) for k, v in _pairs(value)}
    if isinstance(value, pa.ListScalar):
        return None if not value.is_valid else [shown(each) for each in value]
    if isinstance(value, pa.StructScalar):
        return None if not value.is_valid else {name: shown(value[name]) for name in value.keys()}  # noqa: SIM118
    return value.as_py()


def _pairs(value: pa.MapScalar) -> list[tuple[Any, Any]]:
    return [(each["key"], each["value"]) for each in value.values]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_fastavro_writes_is_read(data: st.DataObject) -> None:
    schema, values = data.draw(typed())
    rows = data.draw(st.lists(values, min_size=1, max_size=6))
    found, reasons = decode(schema, [written(schema, row) for row in rows])
    assert reasons == {}
    assert [shown(each) for each in found] == rows


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_broken_bytes_never_disturb_their_neighbours(data: st.DataObject) -> None:
    schema, values = data.draw(typed())
    good = data.draw(values)
    bytes_of = written(schema, good)
    bad = data.draw(st.binary(max_size=12) | st.integers(0, len(bytes_of)).map(lambda n: bytes_of[:n]))
    found, reasons = decode(schema, [bytes_of, bad, None, bytes_of])
    assert set(reasons) <= {1}
    assert [shown(found[0]), shown(found[3])] == [good, good]
    assert not found[2].is_valid
    if 1 in reasons:
        assert not found[1].is_valid


ORDER_1 = record(
    ("id", "int"), ("gone", {"type": "array", "items": "string"}), ("amount", "float"), name="Order"
)
ORDER_2 = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "amount", "type": "double"},
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "state", "type": {"type": "enum", "name": "S", "symbols": ["NEW", "OLD"]}, "default": "OLD"},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": ["x", "y"]},
        {"name": "sums", "type": {"type": "map", "values": "long"}, "default": {"a": 300}},
        {
            "name": "inner",
            "type": record(("n", "int"), ("t", "string"), name="Inner"),
            "default": {"n": -1, "t": "é"},
        },
        {"name": "customer", "type": "string", "aliases": ["client"], "default": "nobody"},
    ],
}
ORDER_3 = record(("id", "long"), ("amount", "double"), ("client", "string"), name="Order")


@pytest.mark.slow
def test_many_schemas_in_one_batch() -> None:
    values = [
        written(ORDER_1, {"id": 1, "gone": ["a", "b"], "amount": 1.5}),
        written(ORDER_3, {"id": 2, "amount": 2.5, "client": "ann"}),
        None,
        written(ORDER_1, {"id": 3, "gone": [], "amount": 3.5}),
    ]
    found, reasons = decode(ORDER_2, values, {7: ORDER_1, 9: ORDER_3}, [7, 9, -1, 7])
    assert reasons == {}
    first = {
        "amount": 1.5,
        "id": 1,
        "note": None,
        "state": "OLD",
        "tags": ["x", "y"],
        "sums": [("a", 300)],
        "inner": {"n": -1, "t": "é"},
        "customer": "nobody",
    }
    assert found.to_pylist() == [
        first,
        first | {"id": 2, "amount": 2.5, "customer": "ann"},
        None,
        first | {"id": 3, "amount": 3.5},
    ]


def test_writers_and_readers_that_do_not_fit() -> None:
    values = [written("long", 5), written("string", "x"), written(["null", "long"], None)]
    writers = {0: "long", 1: "string", 2: ["null", "long"]}
    found, reasons = decode("long", values, writers, [0, 1, 2])
    assert found.to_pylist() == [5, None, None]
    assert reasons == {
        1: "the value: string was written and cannot be read as long",
        2: "null was written, and the reader's schema does not allow it",
    }
    lacking = record(("id", "int"), ("more", "string"))
    _, reasons = decode(lacking, [written(record(("id", "int")), {"id": 1})], {0: record(("id", "int"))})
    assert reasons == {0: "field more: it was not written, and the reader's schema has no default for it"}


def test_unions_of_several_types_are_members() -> None:
    schema = ["null", "string", "long", record(("x", "int"), name="P")]
    rows: list[Any] = ["a", 5, None, {"x": 1}]
    found, reasons = decode(schema, [written(schema, row) for row in rows])
    assert reasons == {}
    none = {"member0": None, "member1": None, "member2": None}
    assert found.to_pylist() == [
        none | {"member0": "a"},
        none | {"member1": 5},
        None,
        none | {"member2": {"x": 1}},
    ]
    numbers, reasons = decode(["int", "long"], [written(["int", "long"], 5), b"\x02\x80\x80\x80\x80\x20"])
    assert (numbers.to_pylist(), reasons) == ([5, 2**32], {})


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ("int", b"\x80\x80\x80\x80\x80\x01", "beyond what its type holds"),
        ("long", b"\xff" * 11, "ends before its schema"),
        ("string", b"\x04\xff\xfe", "not UTF-8"),
        ("string", b"\x06\xed\xa0\x80", "not UTF-8"),
        ("string", b"\x01", "below zero"),
        ("string", b"\x08ab", "ends before its schema"),
        ("long", b"\x02\x02", "left over"),
        (["null", "long"], b"\x04", "no branch"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "no symbol"),
        ({"type": "array", "items": "null"}, b"\x80\x80\x80\x80\x80\x80\x01\x00", "more than 16777216 items"),
        ("boolean", b"\x02", "beyond what its type holds"),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xff" * 9 + b"\x01", "beyond what its type"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x02\x64", "beyond what its type"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x02\x9c", "beyond what its type"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 38},
            b"\x22\x00" + b"\xff" * 16,
            "beyond what its type",
        ),
    ],
)
def test_why_a_value_does_not_decode(schema: Schema, value: bytes, reason: str) -> None:
    found, reasons = decode(schema, [value])
    assert reason in reasons[0]
    assert found.to_pylist() == [None]


def test_only_what_may_be_null_is_declared_nullable() -> None:
    items = {"type": "array", "items": ["null", "long"]}
    schema = record(
        ("id", "long"),
        ("note", ["null", "string"]),
        ("number", ["null", "int", "long"]),
        ("either", ["string", "int"]),
        ("items", items),
        ("inner", record(("x", "double"), name="Inner")),
        ("counts", {"type": "map", "values": "int"}),
    )
    kind = AvroDecoder(parse(json.dumps(schema))).type
    assert {field.name: field.nullable for field in kind} == {
        "id": False,
        "note": True,
        "number": True,
        "either": False,
        "items": False,
        "inner": False,
        "counts": False,
    }
    assert all(member.nullable for member in kind.field("either").type)
    assert kind.field("items").type.value_field.nullable
    assert not kind.field("inner").type.field("x").nullable
    assert not kind.field("counts").type.item_field.nullable


def test_decimals_of_all_sizes() -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3}
    numbers = (0, 1, -1, 127, 128, -128, -129, 10**38 - 1, 1 - 10**38)
    rows = [Decimal((n < 0, tuple(map(int, str(abs(n)))), -3)) for n in numbers]
    values = [written(schema, row) for row in rows] + [b"\x28" + bytes(19) + b"\x05", b"\x00"]
    found, reasons = decode(schema, values)
    assert reasons == {}
    assert found.to_pylist() == [*rows, Decimal("0.005"), Decimal("0")]


def test_arrays_grow_beyond_the_first_guess() -> None:
    schema = {"type": "array", "items": {"type": "array", "items": "int"}}
    rows: list[Any] = [[[1, 2], []], [], [list(range(100_000))], [[3]]]
    found, reasons = decode(schema, [written(schema, row) for row in rows])
    assert (found.to_pylist(), reasons) == (rows, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"type":"record","name":"N","fields":[{"name":"next","type":["null","N"]}]}', "N holds itself"),
        ("{", "is not JSON"),
        ('{"type":"record","fields":[]}', "No name in schema"),
        ('"Order"', '"Order" is not a defined name'),
        ('{"type":"bytes","logicalType":"decimal","precision":40}', "more than Spark's 38"),
        ('{"type":"array","items":' * 60 + '"int"' + "}" * 60, "nested more than"),
        ("7", "Schema not yet supported: 7"),
    ],
)
def test_schemas_that_cannot_be_used(text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        parse(text)


@pytest.mark.slow
def test_the_same_without_numba() -> None:
    code = """
import numpy, pyarrow
from moldau.spark.write.rows import pieces_of
from moldau.spark.typed.avro.decode import AvroDecoder
from moldau.spark.typed.avro.schema import parse
from moldau.spark.typed.avro.write import AvroEncoder
rows = [{"a": -5, "b": ["x", "é"]}, None, {"a": 2**62, "b": []}]
schema = parse('{"type":"record","name":"R","fields":[{"name":"a","type":"long"},'
               '{"name":"b","type":{"type":"array","items":"string"}}]}')
column = pyarrow.array(rows)
values = pieces_of(AvroEncoder(schema, column.type).encode(column), "v")
zeros = numpy.zeros(3, numpy.int64)
found, reasons = AvroDecoder(schema).decode(values, zeros, zeros, lambda _: schema)
assert (found.to_pylist(), reasons) == (rows, {})
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "MOLDAU_SPARK_KERNELS": "off"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_names_of_other_schemas() -> None:
    money = '{"type":"record","name":"shop.Money","fields":[{"name":"cents","type":"long"}]}'
    order = '{"type":"record","name":"shop.Order","fields":[{"name":"price","type":"Money"}]}'
    schema = parse(order, [money])
    assert schema.fields[0].type.fields[0].name == "cents"
