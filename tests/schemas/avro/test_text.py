"""Types as Avro writes them, and the form in which order says nothing."""

import json
from typing import Any

import pytest

from moldau.schemas.avro.parse import parse_avro
from moldau.schemas.avro.text import normal_json, text_of, written
from moldau.schemas.avro.types import AvroField, AvroSchema, AvroType

INT = AvroType("int")
FIXED = AvroType("fixed", "n.F", size=2)


def record(name: str, *fields: AvroField, **others: Any) -> AvroType:
    return AvroType("record", name, fields=fields, **others)


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (INT, "int"),
        (AvroType("int", properties={"x": 1}), {"type": "int", "x": 1}),
        (AvroType("array", inner=INT), {"type": "array", "items": "int"}),
        (
            AvroType("map", inner=INT, properties={"x": 1}),
            {"type": "map", "values": "int", "x": 1},
        ),
        (AvroType("union", branches=(AvroType("null"), INT)), ["null", "int"]),
        (FIXED, {"type": "fixed", "name": "F", "namespace": "n", "size": 2}),
        (record("R", is_error=True), {"type": "error", "name": "R", "fields": []}),
        (
            AvroType("enum", "E", "d", symbols={"B": None, "A": None}, symbol_default="A"),
            {"type": "enum", "name": "E", "doc": "d", "symbols": ["B", "A"], "default": "A"},
        ),
    ],
)
def test_one_type(type_: AvroType, text: Any) -> None:
    assert json.dumps(written(type_)) == json.dumps(text), "the order of attributes counts"


def test_a_named_type_is_written_once_and_named_afterwards() -> None:
    type_ = record("n.R", AvroField("a", FIXED), AvroField("b", FIXED), AvroField("c", INT))
    assert [each["type"] for each in written(type_)["fields"]] == [
        {"type": "fixed", "name": "F", "size": 2},  # in the namespace of what is around it
        "F",
        "int",
    ]


def test_the_name_of_another_namespace_is_written_in_full() -> None:
    type_ = record("m.R", AvroField("a", FIXED), AvroField("b", FIXED))
    assert written(type_)["fields"][1]["type"] == "n.F"


def test_a_type_with_the_name_of_a_primitive_is_written_in_full() -> None:
    odd = AvroType("fixed", "n.string", size=1)
    type_ = record("n.R", AvroField("a", odd), AvroField("b", odd), AvroField("c", AvroType("string")))
    assert [each["type"] for each in written(type_)["fields"]][1:] == ["n.string", "string"]


def test_a_record_that_contains_itself() -> None:
    type_ = record("n.R")
    type_.fields = (AvroField("next", AvroType("union", branches=(AvroType("null"), type_))),)
    assert written(type_)["fields"] == [{"name": "next", "type": ["null", "R"]}]


def test_only_what_says_something_is_written_of_a_field() -> None:
    plain = AvroField("a", INT)
    full = AvroField("b", INT, True, None, "ignore", "", ("c",), {"x": 1})
    assert [json.dumps(each) for each in written(record("R", plain, full))["fields"]] == [
        '{"name": "a", "type": "int"}',
        '{"name": "b", "type": "int", "doc": "", "default": null, "order": "ignore",'
        ' "aliases": ["c"], "x": 1}',
    ]


def test_aliases_of_the_same_namespace_are_short() -> None:
    type_ = record("n.R", aliases=("n.S", "m.T"))
    assert written(type_)["aliases"] == ["S", "m.T"]


def test_the_text_has_no_white_space_and_keeps_borrowed_types_names() -> None:
    type_ = record("n.R", AvroField("a", FIXED))
    assert text_of(AvroSchema(type_, {}, frozenset({"n.F"}))) == (
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"F"}]}'
    )


def test_text_and_tree_are_the_same() -> None:
    text = (
        '{"type":"record","name":"R","namespace":"n","doc":"é","fields":[{"name":"a","type":["null",'
        '{"type":"enum","name":"m.E","symbols":["A"],"aliases":["m.D"]}],"default":null}],"x":{"y":[1]}}'
    )
    once = text_of(parse_avro(text))
    assert text_of(parse_avro(once)) == once


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"type":"int","a":1,"b":2}', '{"b":2,"type":"int","a":1}'),
        ('{"type":"fixed","name":"F","size":1,"doc":""}', '{"type":"fixed","name":"F","size":1}'),
        (
            '{"type":"fixed","name":"n.F","size":1,"aliases":["A","B"]}',
            '{"type":"fixed","name":"F","namespace":"n","size":1,"aliases":["n.B","A"]}',
        ),
        ('{"type":"array","items":"int","b":2,"a":1}', '{"a":1,"type":"array","b":2,"items":"int"}'),
    ],
)
def test_the_normal_form_forgets_what_says_nothing(one: str, other: str) -> None:
    assert text_of(parse_avro(one)) != text_of(parse_avro(other))
    assert json.dumps(normal_json(parse_avro(one))) == json.dumps(normal_json(parse_avro(other)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('["null","int"]', '["int","null"]'),
        (
            '{"type":"enum","name":"E","symbols":["A","B"]}',
            '{"type":"enum","name":"E","symbols":["B","A"]}',
        ),
        (
            '{"type":"enum","name":"E","symbols":["A","B"],"default":"A"}',
            '{"type":"enum","name":"E","symbols":["A","B"],"default":"B"}',
        ),
        (
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int","order":"ignore"}]}',
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}',
        ),
    ],
)
def test_the_normal_form_keeps_what_says_something(one: str, other: str) -> None:
    assert normal_json(parse_avro(one)) != normal_json(parse_avro(other))
