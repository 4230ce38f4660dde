"""What of a writer's schema stands for what of a reader's."""

import json
from typing import Any

from moldau.schemas.avro.parse import parse_avro
from moldau.schemas.avro.resolution import (
    enum_symbols,
    matching_branch,
    matching_fields,
    same_kind,
    same_name,
)
from moldau.schemas.avro.types import AvroType


def parsed(schema: Any) -> AvroType:
    return parse_avro(json.dumps(schema)).root


def record(*fields: Any, name: str = "R") -> AvroType:
    return parsed({"type": "record", "name": name, "fields": [{"type": "int", **each} for each in fields]})


def test_a_field_that_feeds_one_of_its_own_name_feeds_no_alias() -> None:
    writer = record({"name": "a"}, {"name": "b"}, {"name": "gone"})
    reader = record({"name": "new", "aliases": ["a", "b"]}, {"name": "a"}, {"name": "more", "default": 1})
    pairs, rest = matching_fields(writer, reader)
    assert [(each.name, place) for each, place in pairs] == [("a", 1), ("b", None), ("gone", None)]
    assert rest == [0, 2]


def test_an_alias_feeds_a_field() -> None:
    pairs, rest = matching_fields(record({"name": "old"}), record({"name": "new", "aliases": ["x", "old"]}))
    assert ([place for _, place in pairs], rest) == ([0], [])


def test_names_count_without_their_namespace_and_aliases_with_it() -> None:
    def fixed(name: str, *aliases: str) -> AvroType:
        return parsed({"type": "fixed", "name": name, "size": 1, "aliases": list(aliases)})

    assert same_name(fixed("a.F"), fixed("b.F"))
    assert same_name(fixed("b.Old"), fixed("b.F", "Old"))
    assert not same_name(fixed("a.Old"), fixed("b.F", "Old"))


def test_symbols_and_kinds() -> None:
    writer = parsed({"type": "enum", "name": "E", "symbols": ["A", "B"]})
    assert enum_symbols(writer, parsed({"type": "enum", "name": "E", "symbols": ["B"]})) == [None, "B"]
    other = parsed({"type": "enum", "name": "E", "symbols": ["B", "C"], "default": "C"})
    assert enum_symbols(writer, other) == ["C", "B"]
    assert same_kind(AvroType("int"), AvroType("double"))
    assert not same_kind(AvroType("double"), AvroType("int"))


def test_the_same_branch_comes_before_others_that_will_do() -> None:
    branches = parsed(["double", "long", "int", "string"]).branches
    assert matching_branch(AvroType("int"), branches, same_kind) is branches[2]
    assert matching_branch(AvroType("float"), branches, same_kind) is branches[0]
    assert matching_branch(AvroType("boolean"), branches, same_kind) is None
