"""Schemas come from strangers: size, depth and count of parts are bounded before anyone looks inside."""

import pytest

from moldau.schemas.limits import (
    MAX_DEPTH,
    MAX_SCHEMA_CHARACTERS,
    MAX_VALUES,
    InvalidSchema,
    check_size,
    compact,
    load_json,
)


def test_a_good_one_is_read() -> None:
    assert load_json(' {"type": "string", "n": [1, 2.5]} ') == {"type": "string", "n": [1, 2.5]}
    assert check_size("  syntax\n") == "syntax"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Empty schema"),
        (" \n", "Empty schema"),
        ("x" * (MAX_SCHEMA_CHARACTERS + 1), "more than"),
        ("{", "not JSON"),
        ("NaN", "NaN is not JSON"),
        ("1e999", "out of range"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "nested deeper"),
        ("[" * 100_000 + "]" * 100_000, "nested deeper"),
        ("[" + "1," * MAX_VALUES + "1]", "more than"),
        (r'{"a": "\ud800"}', "surrogate"),
        (r'{"\ud800": 1}', "surrogate"),
        ("\ud800", "surrogate"),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) and value.isascii() else "other",
)
def test_what_is_not_looked_at(text: str, words: str) -> None:
    with pytest.raises(InvalidSchema, match=words):
        load_json(text)


def test_json_without_white_space() -> None:
    assert compact({"b": [1, "é"], "a": None}) == '{"b":[1,"é"],"a":null}'
    assert compact({"b": 1, "a": 2}, sort_keys=True) == '{"a":2,"b":1}'
