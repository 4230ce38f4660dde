"""JSON in the strict mode: it refuses what does not fit, and reads what it writes."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.compatibility import Compatibility
from moldau.connect.converters.json import JsonConverter
from moldau.connect.data.schema import (
    Schema,
    SchemaAndValue,
    Struct,
    array,
    date,
    decimal,
    map_of,
    struct,
    time,
    timestamp,
)
from moldau.connect.data.types import (
    Float32,
    Float64,
    Instant,
    Int8,
    Int16,
    Int32,
    Int64,
    Type,
)
from moldau.connect.errors import DataException

WITH_SCHEMAS = JsonConverter({})
PLAIN = JsonConverter({"schemas.enable": "false"})


def envelope(kind: str, payload: str, more: str = "") -> bytes:
    return f'{{"schema":{{"type":"{kind}"{more}}},"payload":{payload}}}'.encode()


@pytest.mark.parametrize(
    ("raw", "like_kafka", "message"),
    [
        (envelope("int8", "300"), 44, r"Value \(300\) was out of range for INT8"),
        (envelope("int32", '"5"'), 0, "INT32 cannot be read from a JSON STRING"),
        (envelope("int32", "5.9"), 5, "INT32 cannot be read from a JSON NUMBER"),
        (envelope("int64", str(2**63)), -(2**63), "was out of range for INT64"),
        (envelope("string", "5"), None, "STRING cannot be read from a JSON NUMBER"),
        (envelope("boolean", '"true"'), False, "BOOLEAN cannot be read from a JSON STRING"),
        (envelope("double", '"1.5"'), 0.0, "FLOAT64 cannot be read from a JSON STRING"),
        (envelope("bytes", "5"), None, "BYTES cannot be read from a JSON NUMBER"),
        (envelope("array", "{}", ',"items":{"type":"int32"}'), [], "ARRAY cannot be read from a JSON OBJECT"),
        (envelope("int32", "1") + b" x", 1, "Unexpected text after the value"),
    ],
)
def test_what_kafka_bends_is_refused(raw: bytes, like_kafka: object, message: str) -> None:
    bent = JsonConverter({}, compatibility=Compatibility.KAFKA).to_connect("t", raw)
    assert bent.value == like_kafka
    with pytest.raises(DataException, match=message):
        WITH_SCHEMAS.to_connect("t", raw)


def test_numbers_without_a_schema_that_do_not_fit() -> None:
    with pytest.raises(DataException, match="was out of range for INT64"):
        PLAIN.to_connect("t", str(2**63).encode())
    found = PLAIN.to_connect("t", b'{"a":[1,2.5,null]}')
    assert found == (None, {"a": [1, 2.5, None]})


def test_floats_that_are_no_numbers_come_back() -> None:
    schema = Schema(Type.FLOAT64)
    raw = WITH_SCHEMAS.from_connect("t", schema, Float64("-inf"))
    assert WITH_SCHEMAS.to_connect("t", raw) == (schema, float("-inf"))


def test_decimals_get_the_scale_of_their_schema_or_are_refused() -> None:
    more = ',"name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"2"}'
    assert str(WITH_SCHEMAS.to_connect("t", envelope("bytes", "1.5", more)).value) == "1.50"
    assert str(WITH_SCHEMAS.to_connect("t", envelope("bytes", "-3", more)).value) == "-3.00"
    with pytest.raises(DataException, match="has more digits than the scale 2"):
        WITH_SCHEMAS.to_connect("t", envelope("bytes", "1.555", more))


def test_bad_json_says_where() -> None:
    with pytest.raises(DataException, match="line 1, column 2"):
        PLAIN.to_connect("t", b"{bad")
    with pytest.raises(DataException, match="exceeds the maximum allowed"):
        PLAIN.to_connect("t", b"1" * 2000)
    with pytest.raises(DataException, match="nested too deeply"):
        PLAIN.to_connect("t", b"[" * 100_000)


def test_other_encodings_are_found_out() -> None:
    assert PLAIN.to_connect("t", '"é"'.encode("utf-16-le")).value == "é"
    assert PLAIN.to_connect("t", '["é"]'.encode("utf-32")).value == ["é"]


def test_schemas_are_remembered_within_a_bound() -> None:
    small = JsonConverter({"schemas.cache.size": "2"})
    for version in range(10):
        schema = Schema(Type.STRING, version=version)
        assert small.to_connect("t", small.from_connect("t", schema, "x")) == (schema, "x")
    assert len(small._written) <= 2
    assert len(small._read) <= 2


# --- whatever is written is read back -------------------------------------------------------------------

OPTIONS = st.fixed_dictionaries(
    {"optional": st.booleans()},
    optional={"name": st.sampled_from(["a.B", "n"]), "version": st.integers(1, 9)},
)
SINGLE = {
    Type.INT8: st.integers(-128, 127).map(Int8),
    Type.INT16: st.integers(-(2**15), 2**15 - 1).map(Int16),
    Type.INT32: st.integers(-(2**31), 2**31 - 1).map(Int32),
    Type.INT64: st.integers(-(2**63), 2**63 - 1).map(Int64),
    Type.FLOAT32: st.floats(width=32, allow_nan=False).map(Float32),
    Type.FLOAT64: st.floats(allow_nan=False).map(Float64),
    Type.BOOLEAN: st.booleans(),
    Type.STRING: st.text(),
    Type.BYTES: st.binary(),
}
LOGICAL = [
    (decimal(3), st.integers(-(10**20), 10**20).map(lambda number: Decimal(number).scaleb(-3))),
    (date(), st.integers(-(10**5), 10**5).map(lambda days: Instant(days * 86_400_000))),
    (time(), st.integers(0, 86_399_999).map(Instant)),
    (timestamp(), st.integers(-(10**13), 10**13).map(Instant)),
]


def made_optional(schema: Schema, values: "st.SearchStrategy[Any]") -> "st.SearchStrategy[Any]":
    return st.none() | values if schema.optional else values


@st.composite
def schemas_and_values(draw: st.DrawFn, depth: int = 2) -> SchemaAndValue:
    shape = draw(st.sampled_from(["single", "logical", "array", "map", "struct"] if depth else ["single"]))
    options: Any = draw(OPTIONS)
    if shape == "single":
        kind = draw(st.sampled_from(list(SINGLE)))
        schema = Schema(kind, **options)
        return SchemaAndValue(schema, draw(made_optional(schema, SINGLE[kind])))
    if shape == "logical":
        return SchemaAndValue(
            *draw(st.sampled_from(LOGICAL).flatmap(lambda pair: st.tuples(st.just(pair[0]), pair[1])))
        )
    if shape == "struct":
        fields = draw(
            st.dictionaries(st.text(min_size=1, max_size=3), schemas_and_values(depth=depth - 1), max_size=3)
        )
        schema = struct({name: found.schema for name, found in fields.items() if found.schema}, **options)
        return SchemaAndValue(schema, Struct(schema, {name: found.value for name, found in fields.items()}))
    inner = draw(schemas_and_values(depth=depth - 1))
    assert inner.schema is not None
    if shape == "array":
        return SchemaAndValue(array(inner.schema, **options), [inner.value])
    return SchemaAndValue(
        map_of(Schema(Type.STRING), inner.schema, **options), {draw(st.text()): inner.value}
    )


@pytest.mark.parametrize("text", [r'"\ud800"', r'{"\udc00": 1}', r'["a", {"b": "\ud83d x"}]'])
def test_half_of_a_character_is_refused_where_nobody_asked_for_it(text: str) -> None:
    """Databases and files cannot be given it: it has to be one bad record, not the end of a sink's task."""
    config = {"schemas.enable": "false"}
    with pytest.raises(DataException, match="half of a character"):
        JsonConverter(config).to_connect("t", text.encode())
    assert JsonConverter(config, compatibility=Compatibility.KAFKA).to_connect("t", text.encode()).value
    whole = JsonConverter(config).to_connect("t", rb'"\ud83d\ude00 \\ud800"')
    assert whole.value == "\U0001f600 \\ud800"


@pytest.mark.slow
@given(schemas_and_values(), st.booleans())
def test_what_is_written_is_read_back(found: SchemaAndValue, numeric: bool) -> None:
    converter = JsonConverter({"decimal.format": "numeric" if numeric else "base64"})
    raw = converter.from_connect("t", found.schema, found.value)
    assert converter.to_connect("t", raw) == found
    like_kafka = JsonConverter({}, compatibility=Compatibility.KAFKA).to_connect("t", raw)
    assert like_kafka.schema == found.schema
