"""JSON from strangers."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.web.json_text import parse, read_json

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(json_values)
def test_what_is_json_is_read(value):
    text = json.dumps(value)
    assert read_json(text) == value
    assert read_json(text.encode()) == value
    assert read_json(json.dumps(value, indent=1, separators=(" , ", " : "))) == value
    assert parse(text) == value


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"NaN", "NaN is no JSON"),
        (b"[-Infinity]", "-Infinity is no JSON"),
        (b'{"a":1,"a":2}', "same name twice"),
        (b'"\xff"', "not UTF-8"),
        (b"[" * 65 + b"]" * 65, "more than 64 deep"),
        (b"[" * 200_000, "more than 64 deep"),
        (b'{"a":' * 200_000, "more than 64 deep"),
        (b"9" * 5000, "digits"),
        (b"", "Expecting value"),
        (b"1 2", "Extra data"),
    ],
)
def test_what_is_refused(data, why):
    with pytest.raises(ValueError, match=why):
        read_json(data)


def test_the_last_depth_that_is_taken():
    assert read_json(b"[" * 64 + b"]" * 64) is not None
    assert read_json('[[1],{"a":[]}]', 3)
    with pytest.raises(ValueError, match="more than 1 deep"):
        read_json("[[1]]", 1)
    assert read_json("7", 0) == 7


def test_names_are_told_from_texts_with_colons():
    assert read_json('{"a":"b:c","d\\":":{"e" : ":"}}') == {"a": "b:c", 'd":': {"e": ":"}}
    for twice in ('{"a":"x:y","a":1}', '[{"b":{"a":1,"a":":"}}]', '{"a":":","\\u0061":1}'):
        with pytest.raises(ValueError, match="same name twice"):
            read_json(twice)
