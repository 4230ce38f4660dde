"""Avro's JSON encoding beside its binary one: fastavro is the judge."""

import contextlib
import io
import json

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.serde.avro import parse_avro
from moldau.serde.avro_json import decode, encode
from moldau.serde.errors import SerdeError

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "ns.R",
        "fields": [
            {"name": "n", "type": "null"},
            {"name": "b", "type": "boolean"},
            {"name": "i", "type": "int"},
            {"name": "l", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "f", "type": "float"},
            {"name": "d", "type": "double"},
            {"name": "y", "type": "bytes"},
            {"name": "s", "type": "string"},
            {"name": "x", "type": {"type": "fixed", "name": "F", "size": 2}},
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
            {"name": "a", "type": {"type": "array", "items": "int"}},
            {"name": "m", "type": {"type": "map", "values": "string"}},
            {"name": "u", "type": ["null", "string", "R", "F"]},
        ],
    }
)
AVRO = parse_avro(SCHEMA)


def values(depth=1):
    text = st.text('aé ÿ"0', max_size=4)
    union = [st.none(), st.builds(lambda each: {"string": each}, text), st.just({"ns.F": "ab"})]
    if depth:
        union.append(st.builds(lambda each: {"ns.R": each}, values(depth - 1)))
    return st.fixed_dictionaries(
        {
            "n": st.none(),
            "b": st.booleans(),
            "i": st.integers(-(2**31), 2**31 - 1),
            "l": st.integers(0, 2**40),
            "f": st.floats(width=32, allow_nan=False, allow_infinity=False),
            "d": st.floats(allow_nan=False, allow_infinity=False),
            "y": text,
            "s": text,
            "x": st.just("\u00ff\u0000"),
            "e": st.sampled_from(["A", "B"]),
            "a": st.lists(st.integers(-5, 5), max_size=3),
            "m": st.dictionaries(text, text, max_size=3),
            "u": st.one_of(union),
        }
    )


@pytest.mark.slow
@given(values())
def test_there_and_back(value):
    data = encode(AVRO, value)
    assert decode(AVRO, b"12345" + data, 5) == value
    # fastavro reads the same out of it.
    read = fastavro.schemaless_reader(io.BytesIO(data), json.loads(SCHEMA), None)
    assert (read["i"], read["s"], read["y"], read["m"]) == (
        value["i"],
        value["s"],
        value["y"].encode("latin-1"),
        value["m"],
    )


@pytest.mark.slow
@given(st.binary(max_size=40))
def test_garbage_is_refused_or_read(data):
    with contextlib.suppress(SerdeError):
        decode(AVRO, data, 0)


def test_numbers_that_json_has_not():
    double = parse_avro('"double"')
    for text in ("NaN", "Infinity", "-Infinity"):
        assert decode(double, encode(double, text), 0) == text


def test_bytes_alone_have_no_length():
    plain = parse_avro('"bytes"')
    assert encode(plain, "a\u00ff") == b"a\xff"
    assert decode(plain, b"xa\xff", 1) == "a\u00ff"


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ('"int"', 2**31, "is no int"),
        ('"int"', True, "is no int"),
        ('"string"', 1, "is no string"),
        ('"bytes"', "\u0100", "is no bytes"),
        ('{"type":"fixed","name":"F","size":2}', "a", "fixed of 2 bytes"),
        ('{"type":"enum","name":"E","symbols":["A"]}', "B", "is no enum"),
        ('{"type":"array","items":"int"}', [1, "x"], "'x' .str. is no int"),
        ('["null","int"]', {"long": 1}, "names no branch"),
    ],
)
def test_what_does_not_fit(schema, value, said):
    with pytest.raises(SerdeError, match=said):
        encode(parse_avro(schema), value)
