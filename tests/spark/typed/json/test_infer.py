"""Types that were seen in JSON values."""

import random

import pytest

from moldau.spark.typed.json.infer import infer
from moldau.spark.typed.json.schema import json_type
from moldau.spark.typed.shapes import SchemaError


@pytest.mark.parametrize(
    ("values", "ddl"),
    [
        ([b'{"b": "x", "a": 1}'], "a BIGINT, b STRING"),
        ([b'{"a": 1}', b'{"a": 2.5}', b'{"a": null}'], "a DOUBLE"),
        ([b'{"a": true}', b"no JSON", b'{"b": null}'], "a BOOLEAN, b STRING"),
        ([b'{"a": 1}', b'{"a": "x"}'], "a STRING"),
        ([b'{"a": 9223372036854775808}'], "a STRING"),
        ([b'{"a": [1, 2.5], "b": []}'], "a ARRAY<DOUBLE>, b ARRAY<STRING>"),
        ([b'{"a": {"x": 1}}', b'{"a": {"y": "z"}}'], "a STRUCT<x: BIGINT, y: STRING>"),
        ([b'{"a": {}}'], "a MAP<STRING, STRING>"),
        (
            [b'{"a b": 1, "c`d": {"e.f": 1}, "2": 1}'],
            "`2` BIGINT, `a b` BIGINT, `c``d` STRUCT<`e.f`: BIGINT>",
        ),
        ([b"1", b"2"], "BIGINT"),
        ([b'["x"]'], "ARRAY<STRING>"),
        ([b'{"at": "2026-01-31T12:00:00Z"}'], "at STRING"),
    ],
)
def test_types(values, ddl):
    assert infer(values) == ddl
    json_type(ddl)


def test_the_order_of_records_does_not_matter():
    values = [b'{"a": 1, "c": {"x": 1}}', b'{"b": [null], "a": 0.5}', b'{"c": {"w": true}, "b": ["t"]}']
    found = {infer(random.Random(seed).sample(values, 3)) for seed in range(20)}
    assert len(found) == 1


@pytest.mark.parametrize("values", [[], [b""], [b"null"], [b"\xff"]])
def test_nothing_to_go_by(values):
    with pytest.raises(SchemaError, match="none of the records"):
        infer(values)


def test_bounds():
    deep = b'{"a":' * 200 + b"1" + b"}" * 200
    json_type(infer([deep]))
    with pytest.raises(SchemaError, match="more than 2000"):
        infer([b"{" + b",".join(b'"n%d":1' % n for n in range(2_001)) + b"}"])
