"""Schema resolution: what was written with one schema, read with another, by the rules of Avro."""

import io
import json

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.serde.avro import parse_avro
from moldau.serde.compiled_avro.decode import compile_decoder
from moldau.serde.compiled_avro.encode import compile_encoder
from moldau.serde.errors import SerdeError


def record(*fields, name="R", **more):
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name, type_, **more):
    return {"name": name, "type": type_, **more}


def enum(*symbols, name="E", **more):
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size, name="F", **more):
    return {"type": "fixed", "name": name, "size": size, **more}


def array(items):
    return {"type": "array", "items": items}


def map_(values):
    return {"type": "map", "values": values}


A, B = record(field("a", "int"), name="A"), record(field("b", "string"), name="B")
DATE = {"type": "int", "logicalType": "date"}
TREE = record(field("value", "int"), field("next", ["null", "T"]), name="T")
TREE_LONG = record(
    field("next", ["null", "T"]), field("value", "long"), field("x", "int", default=3), name="T"
)

GOOD = [
    # promotions
    ("int", "long", 5, 5),
    ("int", "float", 5, 5.0),
    ("int", "double", -5, -5.0),
    ("long", "float", 5, 5.0),
    ("long", "double", 5, 5.0),
    ("float", "double", 0.5, 0.5),
    ("string", "bytes", "ü", "ü".encode()),
    ("bytes", "string", "ü".encode(), "ü"),
    ("bytes", ["null", "bytes"], b"x", b"x"),
    # fields: another order, new with a default, no longer wanted, by an alias
    (record(field("a", "int"), field("b", "string")), record(field("b", "string"), field("a", "long")),
     {"a": 1, "b": "x"}, {"b": "x", "a": 1}),
    (record(field("a", "int")), record(field("a", "int"), field("n", array("int"), default=[7])),
     {"a": 1}, {"a": 1, "n": [7]}),
    (record(field("a", "int")), record(field("a", "int"), field("n", ["null", "int"], default=None)),
     {"a": 1}, {"a": 1, "n": None}),
    (record(field("a", "int")), record(field("a", "int"), field("n", A, default={"a": 9})),
     {"a": 1}, {"a": 1, "n": {"a": 9}}),
    (record(field("a", "int")), record(field("d", "bytes", default="\u00ff"), field("a", "int")),
     {"a": 1}, {"d": b"\xff", "a": 1}),
    (record(field("skip", array(map_(["null", A]))), field("a", "int")), record(field("a", "int")),
     {"skip": [{"k": {"a": 5}, "n": None}], "a": 1}, {"a": 1}),
    (record(field("old", "int")), record(field("new", "long", aliases=["old"])), {"old": 1}, {"new": 1}),
    (record(field("a", "int"), name="x.R"), record(field("a", "int"), name="y.R"), {"a": 1}, {"a": 1}),
    # enums and fixed
    (enum("A", "B"), enum("B", "A"), "A", "A"),
    (enum("A", "C"), enum("A", "B", default="B"), "C", "B"),
    (enum("A", name="x.E"), enum("A", name="y.E"), "A", "A"),
    (enum("A", name="Old"), enum("A", name="New", aliases=["Old"]), "A", "A"),
    (fixed(2), fixed(2), b"ab", b"ab"),
    # parts
    (array("int"), array("double"), [1, 2], [1.0, 2.0]),
    (map_("int"), map_("long"), {"a": 1}, {"a": 1}),
    # unions on either side
    ("int", ["null", "int"], 5, 5),
    ("int", ["string", "double"], 5, 5.0),
    ("int", ["double", "long", "int"], 5, 5),
    (["null", "int"], "int", 5, 5),
    (["null", "int"], ["string", "long", "null"], None, None),
    (["int", "string"], ["string", "bytes", "long"], 5, 5),
    ([A, B], [B, A], {"b": "x"}, {"b": "x"}),
    (A, [B, record(field("a", "long"), name="Other")], {"a": 5}, {"a": 5}),
    (record(field("u", ["null", "int"])), record(field("u", ["null", "double"])), {"u": 5}, {"u": 5.0}),
    # types within themselves
    (TREE, TREE_LONG, {"value": 1, "next": {"value": 2, "next": None}},
     {"next": {"next": None, "value": 2, "x": 3}, "value": 1, "x": 3}),
]  # fmt: skip


@pytest.mark.parametrize(("writer", "reader", "value", "expected"), GOOD)
def test_what_can_be_read(writer, reader, value, expected):
    written = parse_avro(json.dumps(writer))
    data = compile_encoder(written)(b"", value)
    found = compile_decoder(written, parse_avro(json.dumps(reader)))(data, 0)
    assert found == expected
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert list(found) == list(expected)


@pytest.mark.parametrize(
    ("writer", "reader", "said"),
    [
        ("long", "int", "a long cannot be read as int"),
        ("double", "float", "a double cannot be read as float"),
        ("string", "int", "a string cannot be read as int"),
        (record(field("a", "int")), record(field("b", "int")), "has a field 'b' without a default"),
        (record(field("a", record(field("x", "string"), name="I"))),
         record(field("a", record(field("x", "int"), name="I"))), "a.x: a string cannot be read as int"),
        (enum("A", name="E1"), enum("A", name="E2"), "E1 and E2 have different names"),
        (fixed(2), fixed(3), "F has 2 bytes, the reader's has 3"),
        (array("int"), array("string"), "a int cannot be read as string"),
        (array("int"), map_("int"), "a array cannot be read as map"),
        ("int", ["null", "string"], "a int fits none of null, string"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_known_before_any_data(writer, reader, said):
    with pytest.raises(SerdeError) as caught:
        compile_decoder(parse_avro(json.dumps(writer)), parse_avro(json.dumps(reader)))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("writer", "reader", "value", "said"),
    [
        (["null", "string"], "string", None, "The data holds a null that the reader's schema cannot read"),
        (
            ["int", "string"],
            ["null", "int"],
            "x",
            "The data holds a string that the reader's schema cannot read",
        ),
        (enum("A", "B"), enum("A"), "B", "has no symbol for one that E has, and no default"),
    ],
)
def test_what_depends_on_the_data_is_known_with_it(writer, reader, value, said):
    written = parse_avro(json.dumps(writer))
    decode = compile_decoder(written, parse_avro(json.dumps(reader)))
    with pytest.raises(SerdeError) as caught:
        decode(compile_encoder(written)(b"", value), 0)
    assert said in str(caught.value)


FIELDS = st.sampled_from(["int", "long", "float", "double", "string", "bytes"])
WIDER = {
    "int": ["int", "long", "float", "double"],
    "long": ["long", "float", "double"],
    "float": ["float", "double"],
    "double": ["double"],
    "string": ["string"],
    "bytes": ["bytes"],
}
VALUES = {
    "int": st.integers(-(2**24), 2**24),
    "long": st.integers(-(2**24), 2**24),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "string": st.text(max_size=20),
    "bytes": st.binary(max_size=20),
}


@pytest.mark.slow
@given(st.data())
def test_random_evolutions_are_read_as_fastavro_reads_them(data):
    types = data.draw(st.dictionaries(st.sampled_from("abcdef"), FIELDS, max_size=6))
    written = {name: ["null", each] if data.draw(st.booleans()) else each for name, each in types.items()}
    kept = {
        name: data.draw(st.sampled_from(WIDER[each]))
        for name, each in types.items()
        if data.draw(st.booleans())
    }
    wanted = [field(name, ["null", each]) for name, each in kept.items()]
    wanted = data.draw(st.permutations([*wanted, field("new", ["null", "int"], default=None)]))
    writer = record(*(field(name, each) for name, each in written.items()))
    reader = record(*wanted)
    value = {name: data.draw(VALUES[each]) for name, each in types.items()}
    parsed = parse_avro(json.dumps(writer))
    encoded = compile_encoder(parsed)(b"", value)
    found = compile_decoder(parsed, parse_avro(json.dumps(reader)))(encoded, 0)
    expected = fastavro.schemaless_reader(
        io.BytesIO(encoded), fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    )
    assert found == expected


def test_the_readers_logical_type_counts():
    data = compile_encoder(parse_avro('"int"'))(b"", 1)
    found = compile_decoder(parse_avro('"int"'), parse_avro(json.dumps(DATE)))(data, 0)
    assert found.isoformat() == "1970-01-02"
    assert compile_decoder(parse_avro(json.dumps(DATE)), parse_avro('"int"'))(data, 0) == 1


def test_defaults_are_not_shared_between_records():
    writer, reader = record(), record(field("n", array("int"), default=[]))
    decode = compile_decoder(parse_avro(json.dumps(writer)), parse_avro(json.dumps(reader)))
    decode(b"", 0)["n"].append(1)
    assert decode(b"", 0) == {"n": []}


def test_unions_of_many_branches():
    names = [record(field("x", "int"), name=f"R{number}") for number in range(70)]
    schema = parse_avro(json.dumps(names))
    data = compile_encoder(schema)(b"", ("R69", {"x": 5}))
    assert compile_decoder(schema, return_record_name=True)(data, 0) == ("R69", {"x": 5})
