"""Keywords of JSON Schema that are plain values: what breaks a reader and what does not."""

from types import SimpleNamespace
from typing import Any

import pytest

from moldau.registry.rules.json_values import changed_limits, changed_values


def schema(kind: str, *, integer: bool = False, **keywords: Any) -> Any:
    return SimpleNamespace(kind=kind, integer=integer, keywords=keywords)


@pytest.mark.parametrize(
    ("kind", "before", "after", "expected"),
    [
        ("string", {}, {"maxLength": 5}, ("MAX_LENGTH_ADDED", True)),
        ("string", {"maxLength": 5}, {}, ("MAX_LENGTH_REMOVED", False)),
        ("string", {"maxLength": 5}, {"maxLength": 4}, ("MAX_LENGTH_DECREASED", True)),
        ("string", {"maxLength": 5}, {"maxLength": 6}, ("MAX_LENGTH_INCREASED", False)),
        ("string", {"minLength": 5}, {"minLength": 6}, ("MIN_LENGTH_INCREASED", True)),
        ("string", {"pattern": "a"}, {"pattern": "b"}, ("PATTERN_CHANGED", True)),
        ("string", {"pattern": "a"}, {}, ("PATTERN_REMOVED", False)),
        ("number", {"exclusiveMaximum": 5}, {"exclusiveMaximum": 4}, ("EXCLUSIVE_MAXIMUM_DECREASED", True)),
        ("number", {"multipleOf": 4}, {"multipleOf": 2}, ("MULTIPLE_OF_REDUCED", False)),
        ("number", {"multipleOf": 2}, {"multipleOf": 4}, ("MULTIPLE_OF_EXPANDED", True)),
        ("number", {"multipleOf": 0.1}, {"multipleOf": 0.3}, ("MULTIPLE_OF_EXPANDED", True)),
        ("number", {"multipleOf": 2}, {"multipleOf": 3}, ("MULTIPLE_OF_CHANGED", True)),
        ("enum", {"enum": [1]}, {"enum": [1, 2]}, ("ENUM_ARRAY_EXTENDED", False)),
        ("enum", {"enum": [1, 2]}, {"enum": [1]}, ("ENUM_ARRAY_NARROWED", True)),
        ("enum", {"enum": [1]}, {"enum": [True]}, ("ENUM_ARRAY_CHANGED", True)),
    ],
)
def test_one_keyword(kind: str, before: Any, after: Any, expected: tuple[str, bool]) -> None:
    (difference,) = changed_values(schema(kind, **before), schema(kind, **after))
    assert (difference.kind, difference.breaking) == expected


def test_numbers_that_are_the_same_number() -> None:
    assert changed_values(schema("enum", enum=[1, {"a": 2.0}]), schema("enum", enum=[{"a": 2}, 1.0])) == []


def test_an_integer_is_narrower_than_a_number() -> None:
    (narrowed,) = changed_values(schema("number"), schema("number", integer=True))
    (extended,) = changed_values(schema("number", integer=True), schema("number"))
    assert (narrowed.kind, narrowed.breaking) == ("TYPE_NARROWED", True)
    assert (extended.kind, extended.breaking) == ("TYPE_EXTENDED", False)


def test_without_min_contains_one_match_is_asked_for() -> None:
    (gone,) = changed_limits(schema("array", minContains=0), schema("array"), ("minContains",))
    assert (gone.kind, gone.breaking) == ("MIN_CONTAINS_REMOVED", True)
