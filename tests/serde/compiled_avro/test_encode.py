"""Compiled encoders and decoders: fastavro's bytes, fastavro's values, and words where something is wrong."""

import contextlib
import io
import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.serde.avro import parse_avro
from moldau.serde.compiled_avro.decode import compile_decoder
from moldau.serde.compiled_avro.encode import compile_encoder
from moldau.serde.errors import SerdeError

LINE = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "sku", "type": "string"}, {"name": "quantity", "type": "int"}],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": "double"},
        {"name": "ratio", "type": "float", "default": 0.5},
        {"name": "paid", "type": "boolean"},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        {"name": "nothing", "type": "null", "default": None},
        {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["NEW", "DONE"]}},
        {"name": "digest", "type": {"type": "fixed", "name": "Digest", "size": 2}},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
        {"name": "tags", "type": {"type": "map", "values": ["null", "string"]}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "any", "type": ["null", "int", "string", "Line", {"type": "array", "items": "long"}]},
    ],
}
GOOD = {
    "id": -(2**63),
    "amount": 1.5,
    "ratio": 0.25,
    "paid": True,
    "raw": b"\x00\xff",
    "nothing": None,
    "status": "DONE",
    "digest": b"ab",
    "lines": [{"sku": "a", "quantity": 3}, {"sku": "ü" * 100, "quantity": -(2**31)}],
    "tags": {"x": None, "y": "z"},
    "note": "hello",
    "any": {"sku": "b", "quantity": 70000},
}


def parsed(schema):
    return parse_avro(json.dumps(schema))


def encoded(schema, value, **options):
    return compile_encoder(parsed(schema), **options)(b"", value)


def decoded(writer, data, reader=None):
    return compile_decoder(parsed(writer), None if reader is None else parsed(reader))(data, 0)


def fast(schema, value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def test_a_record_of_everything_is_written_as_fastavro_writes_it():
    data = encoded(ORDER, GOOD)
    assert data == fast(ORDER, GOOD)
    assert decoded(ORDER, data) == GOOD
    assert compile_encoder(parsed(ORDER))(b"12345", GOOD) == b"12345" + data
    assert compile_decoder(parsed(ORDER))(b"12345" + data, 5) == GOOD


@pytest.mark.parametrize(
    "number", [0, 1, -1, 63, 64, -64, -65, 8191, 8192, 2**20, 2**27, 2**28, 2**41, 2**55]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_at_the_edges_of_their_sizes(number, sign):
    assert encoded("long", sign * number) == fast("long", sign * number)
    assert decoded("long", fast("long", sign * number)) == sign * number


def test_defaults_fill_what_is_left_out_and_other_fields_are_left_out():
    less = {name: GOOD[name] for name in GOOD if name not in ("ratio", "raw", "note", "nothing")}
    found = decoded(ORDER, encoded(ORDER, less | {"more": 1}))
    assert found == GOOD | {"ratio": 0.5, "raw": b"\xff", "note": None}
    with pytest.raises(SerdeError, match=r"shop.Order has no field 'more'"):
        encoded(ORDER, GOOD | {"more": 1}, strict=True)


@pytest.mark.parametrize(
    ("schema", "value", "path", "said"),
    [
        (
            ORDER,
            GOOD | {"lines": [{"sku": "a", "quantity": "x"}]},
            "lines[0].quantity",
            "'x' (str) is no int",
        ),
        (
            ORDER,
            GOOD | {"lines": [{"sku": "a"}]},
            "lines[0].quantity",
            "no value and no default in shop.Line",
        ),
        (ORDER, GOOD | {"lines": "ab"}, "lines", "is no array: pass a list"),
        (ORDER, GOOD | {"tags": {"a b": 5}}, "tags['a b']", "5 (int) is no string"),
        (ORDER, GOOD | {"tags": {5: "x"}}, "tags", "the key 5 (int) of the map is no string"),
        (ORDER, GOOD | {"tags": []}, "tags", "is no map: pass a dict"),
        (ORDER, GOOD | {"note": 5}, "note", "5 (int) is no string"),
        (ORDER, GOOD | {"any": 2**40}, "any", "fits none of null, int, string, shop.Line, array"),
        (ORDER, GOOD | {"any": 1.5}, "any", "fits none of"),
        (ORDER, GOOD | {"any": ("Other", 1)}, "any", "the union has no branch 'Other'"),
        (ORDER, GOOD | {"status": "LOST"}, "status", "'LOST' (str) is no enum: one of ['NEW', 'DONE']"),
        (ORDER, GOOD | {"digest": b"abc"}, "digest", "3 bytes are given where shop.Digest has 2"),
        (ORDER, GOOD | {"id": 2**63}, "id", "9223372036854775808 is out of the range of long"),
        (ORDER, GOOD | {"id": True}, "id", "True (bool) is no long"),
        (ORDER, GOOD | {"id": 1.5}, "id", "1.5 (float) is no long"),
        (ORDER, GOOD | {"paid": 1}, "paid", "1 (int) is no boolean"),
        (ORDER, GOOD | {"amount": "1"}, "amount", "'1' (str) is no double"),
        (ORDER, GOOD | {"ratio": 1e300}, "ratio", "it is too large"),
        (ORDER, GOOD | {"raw": "text"}, "raw", "'text' (str) is no bytes"),
        (ORDER, GOOD | {"nothing": 0}, "nothing", "0 (int) is no null"),
        ("int", 2**31, "", "2147483648 is out of the range of int"),
        ("string", "\ud800", "", "is no string in UTF-8"),
        (ORDER, [1], "", "is no record shop.Order: pass a dict"),
        ("bytes", "x", "", "'x' (str) is no bytes"),
        ({"type": "record", "name": "Empty", "fields": []}, 5, "", "is no record Empty"),
        ({"type": "int", "logicalType": "date"}, "someday", "", "cannot be written as date"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_path(schema, value, path, said):
    with pytest.raises(SerdeError) as caught:
        encoded(schema, value)
    assert caught.value.path == path
    assert said in caught.value.message
    assert str(caught.value).startswith(path)


def test_a_value_within_itself():
    tree = {
        "type": "record",
        "name": "T",
        "fields": [{"name": "sub", "type": {"type": "array", "items": "T"}}],
    }
    assert decoded(tree, encoded(tree, {"sub": [{"sub": []}]})) == {"sub": [{"sub": []}]}
    value = {"sub": []}
    value["sub"].append(value)
    with pytest.raises(SerdeError, match="within itself"):
        encoded(tree, value)
    with pytest.raises(SerdeError, match="nested too deep"):
        decoded(tree, b"\x02" * 100_000)


def test_unions_take_names_types_and_the_record_that_shares_most():
    small = {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int", "default": 0}]}
    large = {"type": "record", "name": "n.B", "fields": [*small["fields"], {"name": "y", "type": "int"}]}
    union = [small, large, "long", "double", "null", {"type": "map", "values": "int"}]
    for value, index in (
        ({"x": 1}, 0),
        ({"x": 1, "y": 2}, 1),
        (("n.B", {"y": 2}), 1),
        (("B", {"y": 2}), 1),
        ({"-type": "A", "x": 3}, 0),
        (5, 2),
        (1.5, 3),
        (("double", 5), 3),
        (None, 4),
        ({"k": "no"}, 0),
    ):
        assert encoded(union, value)[0] == 2 * index, value
    assert decoded(["null", "string"], encoded(["null", "string"], ("string", "x"))) == "x"
    named = compile_decoder(parsed(union), return_record_name=True)
    assert named(encoded(union, {"y": 2}), 0) == ("n.B", {"x": 0, "y": 2})


LOGICAL = [
    ({"type": "int", "logicalType": "date"}, date(2024, 2, 29)),
    ({"type": "int", "logicalType": "time-millis"}, time(1, 2, 3, 4000)),
    ({"type": "long", "logicalType": "time-micros"}, time(1, 2, 3, 4)),
    ({"type": "long", "logicalType": "timestamp-millis"}, datetime(2024, 1, 1, 1, 2, 3, 4000, UTC)),
    ({"type": "long", "logicalType": "timestamp-micros"}, datetime(1960, 1, 1, 1, 2, 3, 4, UTC)),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, datetime(2024, 1, 1, 1, 2, 3, 4)),
    ({"type": "string", "logicalType": "uuid"}, UUID(int=5)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}, Decimal("-12.34")),
    (
        {"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 6, "scale": 2},
        Decimal("12.34"),
    ),
]


@pytest.mark.parametrize(("schema", "value"), LOGICAL)
def test_logical_types_are_fastavros(schema, value):
    data = encoded(schema, value)
    assert data == fast(schema, value)
    assert decoded(schema, data) == value
    assert decoded(["null", schema], encoded(["null", schema], value)) == value


def test_bytes_alone_have_no_length_as_with_confluent():
    assert encoded("bytes", b"abc") == b"abc"
    assert decoded("bytes", b"abc") == b"abc"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"\xff" * 20,
        b"\x02\x00\x00",
        b"\x00" * 12 + b"\x07",
        b"\x01" * 40,
        fast(ORDER, GOOD)[:-1],
    ],
)
def test_data_that_makes_no_sense(data):
    with pytest.raises(SerdeError):
        decoded(ORDER, data)


def test_bytes_left_over_are_told():
    with pytest.raises(SerdeError, match="2 bytes are left over"):
        decoded("long", b"\x02\x00\x00")


def test_a_count_of_items_without_bytes_is_bounded():
    with pytest.raises(SerdeError, match="too many empty items"):
        decoded({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\x7f\x00")


def test_blocks_may_say_their_size():
    assert decoded({"type": "array", "items": "int"}, b"\x03\x04\x02\x04\x02\x06\x00") == [1, 2, 3]


@pytest.mark.parametrize("text", ["{", '{"type": "nothing"}', '"Unknown"'])
def test_schemas_that_cannot_be_used(text):
    with pytest.raises(SerdeError, match="The Avro schema cannot be used"):
        compile_encoder(parse_avro(text))


@pytest.mark.slow
def test_a_schema_of_many_levels():
    schema = "int"
    for _ in range(40):
        schema = {"type": "array", "items": ["null", {"type": "map", "values": schema}]}
    value = 7
    for _ in range(40):
        value = [None, {"k": value}]
    assert decoded(schema, encoded(schema, value)) == value


# Random schemas with values that fit them.

PLAIN = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "bytes": st.binary(max_size=100),
    "string": st.text(max_size=100),
}


@st.composite
def schemas(draw, depth=3):
    """A schema, and a strategy for its values."""
    choices = ["plain", "enum", "fixed"] + (["array", "map", "record", "optional"] if depth else [])
    match draw(st.sampled_from(choices)):
        case "plain":
            name = draw(st.sampled_from(sorted(PLAIN)))
            return name, PLAIN[name]
        case "enum":
            name = f"E{draw(st.integers(0, 10**9))}"
            return {"type": "enum", "name": name, "symbols": ["A", "B"]}, st.sampled_from("AB")
        case "fixed":
            size = draw(st.integers(0, 5))
            name = f"F{draw(st.integers(0, 10**9))}"
            return {"type": "fixed", "name": name, "size": size}, st.binary(min_size=size, max_size=size)
        case "array":
            inner, values = draw(schemas(depth - 1))
            return {"type": "array", "items": inner}, st.lists(values, max_size=4)
        case "map":
            inner, values = draw(schemas(depth - 1))
            return {"type": "map", "values": inner}, st.dictionaries(st.text(max_size=5), values, max_size=3)
        case "optional":
            inner, values = draw(
                schemas(depth - 1).filter(lambda each: each[0] != "null" and not isinstance(each[0], list))
            )
            return ["null", inner], st.none() | values
        case _:
            parts = draw(st.lists(schemas(depth - 1), max_size=4))
            fields = [{"name": f"f{number}", "type": part[0]} for number, part in enumerate(parts)]
            name = f"R{draw(st.integers(0, 10**9))}"
            values = st.fixed_dictionaries({f"f{n}": part[1] for n, part in enumerate(parts)})
            return {"type": "record", "name": name, "fields": fields}, values


def same(one, other):
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other and type(one) is type(other)


@pytest.mark.slow
@given(st.data())
def test_random_values_go_there_and_back_as_with_fastavro(data):
    schema, values = data.draw(schemas())
    try:
        text = parsed(schema)
    except SerdeError:
        return  # a name drawn twice
    value = data.draw(values)
    found = compile_encoder(text)(b"", value)
    assert same(compile_decoder(text)(found, 0), value)
    if not text.is_bytes:
        assert found == fast(schema, value)


@pytest.mark.slow
@given(st.binary(max_size=60))
def test_random_bytes_are_read_or_refused(data):
    with contextlib.suppress(SerdeError):
        decoded(ORDER, data)
