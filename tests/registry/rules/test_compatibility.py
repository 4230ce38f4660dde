"""Levels: which versions they look at, in which direction, and how the messages read."""

import json
from typing import Any

import pytest

from moldau.registry.rules.compatibility import Level, compared, conflicts, incompatibilities
from moldau.registry.schemas import ParsedSchema, SchemaType, parse


def avro(*fields: tuple[str, Any] | tuple[str, Any, Any]) -> ParsedSchema:
    made = [
        {"name": each[0], "type": each[1], **({"default": each[2]} if len(each) > 2 else {})}
        for each in fields
    ]
    return parse(SchemaType.AVRO, json.dumps({"type": "record", "name": "R", "fields": made}), {})


def js(schema: Any) -> ParsedSchema:
    return parse(SchemaType.JSON, json.dumps(schema), {})


def proto(fields: str) -> ParsedSchema:
    return parse(SchemaType.PROTOBUF, f'syntax = "proto3"; message M {{ {fields} }}', {})


A = avro(("a", "int"))
AB = avro(("a", "int"), ("b", "int"))
AB_DEFAULT = avro(("a", "int"), ("b", "int", 0))
B = avro(("b", "int"))
LONG = avro(("a", "long"))
TEXT = avro(("a", "string"))

LEVELS = {
    "none": Level.NONE, "b": Level.BACKWARD, "bt": Level.BACKWARD_TRANSITIVE, "f": Level.FORWARD,
    "ft": Level.FORWARD_TRANSITIVE, "full": Level.FULL, "fullt": Level.FULL_TRANSITIVE,
}  # fmt: skip

#: previous versions, the new one, the levels that allow it
TABLE: list[tuple[list[ParsedSchema], ParsedSchema, str]] = [
    ([], A, "none b bt f ft full fullt"),
    ([A], A, "none b bt f ft full fullt"),
    ([A], AB, "none f ft"),
    ([A], AB_DEFAULT, "none b bt f ft full fullt"),
    ([AB], A, "none b bt"),
    ([AB_DEFAULT], A, "none b bt f ft full fullt"),
    ([A], LONG, "none b bt"),
    ([LONG], A, "none f ft"),
    ([A], TEXT, "none"),
    ([A, AB], AB_DEFAULT, "none b bt f ft full fullt"),
    ([A, AB_DEFAULT], AB, "none b f ft full"),
    ([TEXT, A], LONG, "none b"),
    ([TEXT, LONG], A, "none f"),
    ([TEXT, A], A, "none b f full"),
    ([A, TEXT], TEXT, "none b f full"),
    ([A, AB_DEFAULT, B], avro(), "none b bt"),
    ([LONG, A], LONG, "none b bt"),
    ([A, LONG], A, "none f ft"),
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("previous", "new", "allowed"), TABLE)
def test_levels(level: str, previous: list[ParsedSchema], new: ParsedSchema, allowed: str) -> None:
    assert (incompatibilities(LEVELS[level], new, previous) == []) == (level in allowed.split())


def test_which_versions_are_looked_at() -> None:
    versions = [A, AB, B]
    assert list(compared(Level.NONE, versions)) == []
    assert list(compared(Level.FULL, versions)) == [B]
    assert list(compared(Level.BACKWARD_TRANSITIVE, versions)) == [B, AB, A]
    assert conflicts(Level.NONE, TEXT, A) == []


AVRO_MESSAGES: list[tuple[Any, Any, str]] = [
    (
        {"type": "record", "name": "R", "fields": []},
        {"type": "record", "name": "R", "fields": [{"name": "f2", "type": "string"}]},
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'f2' at path "
        "'/fields/0' in the new "
        "schema has no default value and is missing in the old schema', additionalInfo:'f2'}",
    ),
    (
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": "double"}]},
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]},
        "{errorType:'TYPE_MISMATCH', description:'The type (path '/fields/0/type') of a field in the "
        "new schema does not "
        "match with the old schema', additionalInfo:'reader type: STRING not compatible with writer "
        "type: DOUBLE'}",
    ),
    (
        ["null", "int"],
        ["null"],
        "{errorType:'MISSING_UNION_BRANCH', description:'The new schema is missing a type inside a "
        "union field at path "
        "'/1' in the old schema', additionalInfo:'reader union lacking writer type: INT'}",
    ),
    (
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        {"type": "enum", "name": "E", "symbols": ["A"]},
        "{errorType:'MISSING_ENUM_SYMBOLS', description:'The new schema is missing enum symbols '[B]' "
        "at path '/symbols' in "
        "the old schema', additionalInfo:'[B]'}",
    ),
    (
        {"type": "record", "name": "n.R", "fields": []},
        {"type": "record", "name": "n.S", "fields": []},
        "{errorType:'NAME_MISMATCH', description:'The name of the schema has changed (path '/name')', "
        "additionalInfo:'expected: n.R'}",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), AVRO_MESSAGES)
def test_avro_messages(old: Any, new: Any, message: str) -> None:
    before, after = (parse(SchemaType.AVRO, json.dumps(each), {}) for each in (old, new))
    assert incompatibilities(Level.BACKWARD, after, [before]) == [message]
    turned = incompatibilities(Level.FORWARD, before, [after])
    assert turned[0].split(",")[0] == message.split(",")[0]


def test_the_direction_names_the_schemas() -> None:
    assert (
        "in the new schema has no default value and is missing in the old"
        in incompatibilities(Level.BACKWARD, AB, [A])[0]
    )
    assert (
        "in the old schema has no default value and is missing in the new"
        in incompatibilities(Level.FORWARD, A, [AB])[0]
    )
    assert len(incompatibilities(Level.FULL, TEXT, [A])) == 2


def test_json_messages() -> None:
    old = js({"type": "object", "properties": {"a": {"type": "string"}}})
    new = js({"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "string"}}})
    first, second = incompatibilities(Level.BACKWARD, new, [old])
    assert first.startswith('{errorType:"TYPE_CHANGED", description:"')
    assert "'#/properties/a'" in first
    assert second.startswith('{errorType:"PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"')
    assert "'#/properties/b'" in second


def test_protobuf_messages() -> None:
    old, new = proto("int32 a = 1;"), proto("string a = 1;")
    (message,) = incompatibilities(Level.BACKWARD, new, [old])
    assert message.startswith('{errorType:"FIELD_SCALAR_KIND_CHANGED", description:"')
    assert "'#/M/1'" in message


def test_json_levels() -> None:
    closed = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
    wider = {**closed, "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    assert incompatibilities(Level.BACKWARD, js(wider), [js(closed)]) == []
    assert incompatibilities(Level.FORWARD, js(wider), [js(closed)]) != []
    assert incompatibilities(Level.FORWARD, js(closed), [js(wider)]) == []
    assert incompatibilities(Level.FULL, js(closed), [js(wider)]) != []
    opened = {"type": "object", "properties": {"a": {"type": "string"}}}
    more = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    assert incompatibilities(Level.BACKWARD, js(more), [js(opened)]) != []
    assert incompatibilities(Level.FORWARD, js(more), [js(opened)]) == []


def test_protobuf_levels() -> None:
    one, two = proto("int32 a = 1;"), proto("int32 a = 1; string b = 2;")
    assert incompatibilities(Level.FULL_TRANSITIVE, two, [one, two, one]) == []
    assert incompatibilities(Level.BACKWARD, proto("oneof o { int32 a = 1; string b = 2; }"), [two]) != []
    assert incompatibilities(Level.FORWARD, proto("oneof o { int32 a = 1; string b = 2; }"), [two]) == []


def test_types_do_not_follow_each_other() -> None:
    text = '{"type":"string"}'
    old, new = parse(SchemaType.AVRO, text, {}), parse(SchemaType.JSON, text, {})
    assert incompatibilities(Level.BACKWARD, new, [old])
    assert incompatibilities(Level.NONE, new, [old]) == []
