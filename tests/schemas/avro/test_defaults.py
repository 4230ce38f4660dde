"""Which JSON values may be a default, and which values they stand for."""

import json
import math
from typing import Any

import pytest

from moldau.schemas.avro.defaults import default_value, fits
from moldau.schemas.avro.parse import parse_avro
from moldau.schemas.avro.types import AvroType


def type_of(schema: Any) -> AvroType:
    return parse_avro(json.dumps(schema), lenient=True).root


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}
INTS = {"type": "array", "items": "int"}
INTS_BY_NAME = {"type": "map", "values": "int"}
RECORD = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "bytes", "default": "\u00ff"}],
}

#: A type, a default that fits, and the value that it stands for.
FITTING: list[tuple[Any, Any, Any]] = [
    ("null", None, None),
    ("boolean", False, False),
    ("int", 2**31 - 1, 2**31 - 1),
    ("int", -(2**31), -(2**31)),
    ("long", 2**63 - 1, 2**63 - 1),
    ("long", -(2**63), -(2**63)),
    ("float", 1, 1.0),
    ("double", 1.5, 1.5),
    ("double", "-Infinity", -math.inf),
    ("string", "水", "水"),
    ("bytes", "a\u00ff", b"a\xff"),
    (FIXED, "\u0000\u00ff", b"\x00\xff"),
    (ENUM, "B", "B"),
    (INTS, [], []),
    (INTS, [1, 2], [1, 2]),
    ({"type": "array", "items": "bytes"}, ["\u00ff"], [b"\xff"]),
    (INTS_BY_NAME, {"a": 1}, {"a": 1}),
    ({"type": "map", "values": "double"}, {"a": 1}, {"a": 1.0}),
    (["null", "int"], None, None),
    (["null", "int"], 1, 1),
    (["int", "bytes"], "\u00ff", b"\xff"),
    (["double", "long"], 1, 1.0),
    (RECORD, {"a": 1, "b": "x"}, {"a": 1, "b": b"x"}),
    (RECORD, {"a": 1}, {"a": 1, "b": b"\xff"}),
    (RECORD, {"a": 1, "unknown": 2}, {"a": 1, "b": b"\xff"}),
]


@pytest.mark.parametrize(("schema", "default", "value"), FITTING)
def test_a_default_that_fits(schema: Any, default: Any, value: Any) -> None:
    type_ = type_of(schema)
    assert fits(type_, default)
    found = default_value(type_, default)
    assert found == value
    assert type(found) is type(value), "1 is no float in Python either"


@pytest.mark.parametrize(
    ("schema", "default"),
    [
        ("null", 0),
        ("null", "null"),
        ("boolean", 1),
        ("boolean", "true"),
        ("int", 2**31),
        ("int", -(2**31) - 1),
        ("int", 1.0),
        ("int", True),
        ("int", "1"),
        ("int", None),
        ("long", 2**63),
        ("float", True),
        ("double", "nan"),
        (["double"], "NaN"),
        ("string", 1),
        ("bytes", "\u0100"),
        ("bytes", [255]),
        (FIXED, "a"),
        (FIXED, "abc"),
        (FIXED, "a\u0100"),
        (ENUM, "C"),
        (ENUM, 0),
        (INTS, [1, "2"]),
        (INTS, {"a": 1}),
        (INTS_BY_NAME, {"a": "1"}),
        (INTS_BY_NAME, [1]),
        (["null", "int"], "1"),
        (RECORD, {"b": "x"}),
        (RECORD, {"a": "1"}),
        (RECORD, [1]),
        (RECORD, None),
    ],
)
def test_a_default_that_does_not_fit(schema: Any, default: Any) -> None:
    type_ = type_of(schema)
    assert not fits(type_, default)
    with pytest.raises(ValueError, match=f"does not fit its type {type_.called}"):
        default_value(type_, default)


def test_a_default_inside_that_does_not_fit_is_found_where_it_is_used() -> None:
    """Schemas of foreign data are parsed without a check of their defaults."""
    inner = {"type": "record", "name": "I", "fields": [{"name": "a", "type": "int", "default": "x"}]}
    type_ = type_of(inner)
    assert fits(type_, {}), "it is checked where it is declared"
    with pytest.raises(ValueError, match="'x' does not fit its type int"):
        default_value(type_, {})
