"""Schemas as the registry keeps them: what is stored, what counts as the same, and what is refused."""

import json
from typing import Any

import fastavro
import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.registry.rules.compatibility import Level, incompatibilities
from moldau.registry.schemas import InvalidSchema, Reference, SchemaType, parse, serialized
from moldau.schemas.json_schema.parse import parse_json
from moldau.schemas.limits import MAX_DEPTH

AVRO, JSON, PROTOBUF = SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF


def record(name: str, *fields: Any, **others: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **others}


#: what is sent, what Confluent's registry stores for it
AVRO_TEXTS: list[tuple[str, str]] = [
    ('"string"', '"string"'),
    (' "int" ', '"int"'),
    ('{"type": "string"}', '"string"'),
    ('{"type": {"type": "string"}}', '"string"'),
    ('{"type": "string", "x": 1}', '{"type":"string","x":1}'),
    ('["null", "int"]', '["null","int"]'),
    ('{"items": "int", "type": "array"}', '{"type":"array","items":"int"}'),
    ('{"values": "int", "type": "map", "default": {}}', '{"type":"map","values":"int","default":{}}'),
    (
        '{"fields": [], "name": "R", "doc": "d", "type": "record"}',
        '{"type":"record","name":"R","doc":"d","fields":[]}',
    ),
    (
        '{"type":"record","name":"a.b.R","fields":[]}',
        '{"type":"record","name":"R","namespace":"a.b","fields":[]}',
    ),
    (
        '{"type":"record","name":"R","namespace":"","aliases":["S"],"fields":[],"z":1,"y":2}',
        '{"type":"record","name":"R","fields":[],"z":1,"y":2,"aliases":["S"]}',
    ),
    (
        '{"type":"record","name":"R","namespace":"n","fields":[{"type":"int","name":"a","order":"ascending"},'
        '{"order":"ignore","default":1,"name":"b","type":"int","doc":"","aliases":["c"],"p":0}]}',
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"int"},'
        '{"name":"b","type":"int","doc":"","default":1,"order":"ignore","aliases":["c"],"p":0}]}',
    ),
    (
        '{"type":"enum","name":"E","default":"A","symbols":["A"],"namespace":"n"}',
        '{"type":"enum","name":"E","namespace":"n","symbols":["A"],"default":"A"}',
    ),
    (
        '{"type":"record","name":"R","fields":[{"name":"a","type":"double","default":"1"}]}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"double","default":1.0}]}',
    ),
    ('{"size":4,"name":"F","type":"fixed"}', '{"type":"fixed","name":"F","size":4}'),
    (
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":{"type":"fixed","name":"F","size":1}},'
        '{"name":"b","type":"n.F"},{"name":"c","type":["null","R"]}]}',
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":{"type":"fixed","name":"F","size":1}},'
        '{"name":"b","type":"F"},{"name":"c","type":["null","R"]}]}',
    ),
    (
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":{"type":"enum","name":"m.E",'
        '"symbols":[]}},{"name":"b","type":"m.E"}]}',
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":{"type":"enum","name":"E",'
        '"namespace":"m","symbols":[]}},{"name":"b","type":"m.E"}]}',
    ),
    (
        '{"type":"enum","name":"E","symbols":["A"],"doc":"é"}',
        '{"type":"enum","name":"E","doc":"é","symbols":["A"]}',
    ),
]


@pytest.mark.parametrize(("given_text", "stored"), AVRO_TEXTS)
def test_avro_is_stored_as_avro_writes_it(given_text: str, stored: str) -> None:
    parsed = parse(AVRO, given_text, {})
    assert parsed.text == stored
    again = parse(AVRO, stored, {})
    assert again.text == stored
    assert again.fingerprint == parsed.fingerprint
    assert serialized(parsed) == stored


def test_normalized_avro_forgets_order_where_order_says_nothing() -> None:
    first = parse(AVRO, '{"type":"string","b":1,"a":2}', {})
    second = parse(AVRO, '{"type":"string","a":2,"b":1}', {})
    assert first.text != second.text
    assert first.normalized == second.normalized == '{"type":"string","a":2,"b":1}'
    nested = parse(AVRO, '{"type":"string","x":[{"b":1,"a":{"d":1,"c":2}}]}', {})
    assert nested.normalized == '{"type":"string","x":[{"a":{"c":2,"d":1},"b":1}]}'
    described = parse(AVRO, '{"type":"record","name":"R","doc":"","aliases":["c","b"],"fields":[]}', {})
    assert described.normalized == '{"type":"record","name":"R","fields":[],"aliases":["b","c"]}'


BAD_AVRO: list[Any] = [
    "strange",
    {"type": "strange"},
    {},
    {"type": 3},
    3,
    None,
    {"type": "array"},
    {"type": "map"},
    {"type": "array", "items": "strange"},
    {"type": "record", "name": "R"},
    {"type": "record", "fields": []},
    {"type": "record", "name": "1R", "fields": []},
    {"type": "record", "name": "R-S", "fields": []},
    {"type": "record", "name": "R", "namespace": "a..b", "fields": []},
    {"type": "record", "name": "R", "namespace": "a-b", "fields": []},
    {"type": "record", "name": "R", "aliases": ["a-b"], "fields": []},
    {"type": "record", "name": "R\u00b2", "fields": []},
    {"type": "record", "name": "R", "namespace": 4, "fields": []},
    {"type": "record", "name": "int", "fields": []},
    {"type": "record", "name": "R", "fields": {}},
    {"type": "record", "name": "R", "fields": ["a"]},
    {"type": "record", "name": "R", "aliases": "S", "fields": []},
    record("R", {"name": "a"}),
    record("R", {"type": "int"}),
    record("R", {"name": "a b", "type": "int"}),
    record("R", {"name": "a", "type": "int"}, {"name": "a", "type": "int"}),
    record("R", {"name": "a", "type": "int", "order": "sideways"}),
    record("R", {"name": "a", "type": "S"}),
    record("R", {"name": "a", "type": record("R")}),
    record("R", {"name": "a", "type": "int", "default": "x"}),
    record("R", {"name": "a", "type": "int", "default": None}),
    record("R", {"name": "a", "type": "int", "default": 2**31}),
    record("R", {"name": "a", "type": "long", "default": 2**63}),
    record("R", {"name": "a", "type": "int", "default": True}),
    record("R", {"name": "a", "type": "boolean", "default": 0}),
    record("R", {"name": "a", "type": "double", "default": "nan"}),
    record("R", {"name": "a", "type": "double", "default": "1_0"}),
    record("R", {"name": "a", "type": ["double", "null"], "default": "1.5"}),
    record("R", {"name": "a", "type": "int", "default": 1.0}),
    record("R", {"name": "a", "type": "string", "default": 1}),
    record("R", {"name": "a", "type": "null", "default": 0}),
    record("R", {"name": "a", "type": ["null", "int"], "default": "x"}),
    record("R", {"name": "a", "type": {"type": "array", "items": "int"}, "default": ["x"]}),
    record("R", {"name": "a", "type": {"type": "map", "values": "int"}, "default": []}),
    record("R", {"name": "a", "type": record("S", {"name": "b", "type": "int"}), "default": {}}),
    {"type": "enum", "name": "E"},
    {"type": "enum", "name": "E", "symbols": ["A", "A"]},
    {"type": "enum", "name": "E", "symbols": ["a b"]},
    {"type": "enum", "name": "E", "symbols": [1]},
    {"type": "enum", "name": "E", "symbols": ["A"], "default": "B"},
    {"type": "fixed", "name": "F"},
    {"type": "fixed", "name": "F", "size": -1},
    {"type": "fixed", "name": "F", "size": "4"},
    {"type": "fixed", "name": "F", "size": True},
    ["null", "null"],
    ["null", ["int"]],
    [record("R"), record("R")],
    [{"type": "array", "items": "int"}, {"type": "array", "items": "long"}],
]


@pytest.mark.parametrize("schema", BAD_AVRO)
def test_invalid_avro(schema: Any) -> None:
    with pytest.raises(InvalidSchema):
        parse(AVRO, json.dumps(schema), {})


GOOD_AVRO: list[Any] = [
    # As Avro's own parser (1.12) has them: letters of any language, and of such defaults only that they are
    # text.
    record("Äpfel", {"name": "水", "type": "int"}),
    record("R", {"name": "a", "type": "double", "default": "NaN"}),
    record("R", {"name": "a", "type": "bytes", "default": "\u0100"}),
    record("R", {"name": "a", "type": {"type": "enum", "name": "E", "symbols": ["A"]}, "default": "B"}),
    record("R", {"name": "a", "type": {"type": "fixed", "name": "F", "size": 2}, "default": "x"}),
    record("R", {"name": "a", "type": "double", "default": 1}),
    record("R", {"name": "a", "type": ["null", "int"], "default": None}),
    record("R", {"name": "a", "type": ["null", "R"], "default": None}),
    record("R", {"name": "a", "type": {"type": "array", "items": "R"}, "default": []}),
    record(
        "R", {"name": "a", "type": record("S", {"name": "b", "type": "int", "default": 1}), "default": {}}
    ),
    record("R", {"name": "a", "type": {"type": "fixed", "name": "F", "size": 2}, "default": "xy"}),
    record(
        "R",
        {"name": "a", "type": {"type": "bytes", "logicalType": "decimal", "precision": 1}, "default": "ÿ"},
    ),
    [record("A"), record("B", {"name": "a", "type": "A"})],
    {"type": "enum", "name": "E", "symbols": []},
]


@pytest.mark.parametrize("schema", GOOD_AVRO)
def test_valid_avro(schema: Any) -> None:
    parsed = parse(AVRO, json.dumps(schema), {})
    fastavro.parse_schema(json.loads(parsed.text))


def test_a_default_that_needs_itself_is_no_endless_loop() -> None:
    parse(AVRO, json.dumps(record("R", {"name": "a", "type": ["R", "null"], "default": {}})), {})


@pytest.mark.parametrize("schema_type", [AVRO, JSON])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "{",
        "nonsense",
        '{"type": NaN}',
        '{"multipleOf": 1e999}',
        '{"type": "string", "doc": "\\ud800"}',
        '{"\\ud800": 1, "type": "string"}',
        "[" * 100_000,
        "[" * 900 + "]" * 900,
        '{"items":' * 300 + '"int"' + "}" * 300,
        '{"not":' * 300 + "{}" + "}" * 300,
        "1" * 5000,
        '"' + "x" * 1_000_001 + '"',
        "[" + "0," * 300_000 + "0]",
    ],
)
def test_neither_size_nor_depth_nor_rubbish_gets_through(schema_type: SchemaType, text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse(schema_type, text, {})


def test_schemas_at_the_allowed_depth_are_parsed() -> None:
    levels = MAX_DEPTH - 2
    parse(AVRO, '{"type":"array","items":' * levels + '"int"' + "}" * levels, {})
    parse(JSON, '{"not":' * levels + "{}" + "}" * levels, {})
    parse(JSON, '{"additionalProperties":' * levels + "{}" + "}" * levels, {})


WORDS = (
    "type name fields items symbols default $ref properties required allOf not enum additionalProperties "
    "$id $schema if dependencies dependentRequired minContains contains propertyNames patternProperties "
    "anyOf prefixItems oneOf const multipleOf maxLength uniqueItems unevaluatedProperties aliases values"
)
KEYS = st.sampled_from(WORDS.split(" "))
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
TEXTS = st.sampled_from(
    ["int", "record", "a", "#", "object", "http://[", "#/a", "array", "enum", DRAFT_4, DRAFT_2020]
)
RUBBISH = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(RUBBISH, RUBBISH, st.sampled_from([AVRO, JSON]))
def test_whatever_json_comes_is_parsed_or_refused(first: Any, second: Any, schema_type: SchemaType) -> None:
    parsed = []
    for value in (first, second):
        try:
            parsed.append(parse(schema_type, json.dumps(value), {}))
        except InvalidSchema as refusal:
            assert str(refusal)  # noqa: PT017
            continue
        assert parse(schema_type, parsed[-1].text, {}).text == parsed[-1].text
    for new in parsed:
        assert all("errorType" in each for each in incompatibilities(Level.FULL, new, parsed[:1]))


# JSON Schema: the meta-schemas of the library judge our table of keywords.

META: dict[str, Any] = {
    "http://json-schema.org/draft-04/schema#": jsonschema.Draft4Validator,
    "http://json-schema.org/draft-06/schema#": jsonschema.Draft6Validator,
    "http://json-schema.org/draft-07/schema#": jsonschema.Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema.Draft201909Validator,
    "https://json-schema.org/draft/2020-12/schema": jsonschema.Draft202012Validator,
}
KEYWORDS: list[dict[str, Any]] = [
    {},
    {"type": "object"},
    {"type": "strange"},
    {"type": ["string", "null"]},
    {"type": []},
    {"type": ["string", "string"]},
    {"type": 3},
    {"minLength": 1},
    {"minLength": -1},
    {"maxLength": "1"},
    {"maxItems": 1.5},
    {"minimum": 0},
    {"minimum": "0"},
    {"exclusiveMinimum": 0},
    {"minimum": 0, "exclusiveMinimum": True},
    {"multipleOf": 0},
    {"multipleOf": 0.5},
    {"pattern": "^a"},
    {"pattern": 3},
    {"title": 3},
    {"required": ["a"]},
    {"required": ["a", "a"]},
    {"required": "a"},
    {"required": []},
    {"properties": {"a": {}}},
    {"properties": []},
    {"properties": {"a": 3}},
    {"properties": {"a": True}},
    {"type": "string", "properties": {"a": 3}},
    {"patternProperties": {"^a": {"type": "strange"}}},
    {"additionalProperties": False},
    {"additionalProperties": {"type": "string"}},
    {"additionalProperties": 3},
    {"items": {}},
    {"items": 3},
    {"items": [{}]},
    {"items": [3]},
    {"uniqueItems": True},
    {"uniqueItems": "yes"},
    {"allOf": [{}]},
    {"allOf": []},
    {"allOf": {}},
    {"anyOf": [3]},
    {"oneOf": [{"type": "strange"}]},
    {"not": {}},
    {"not": 3},
    {"enum": ["a"]},
    {"enum": "a"},
    {"dependencies": {"a": ["b"]}},
    {"dependencies": {"a": {}}},
    {"dependencies": {"a": [1]}},
    {"definitions": {"a": {"type": "strange"}}},
    {"definitions": 3},
    {"$defs": {"a": {"type": "string"}}},
    {"if": {}, "then": {}},
    {"const": 3},
    {"unknown": 3},
]


@pytest.mark.parametrize("draft", META)
@pytest.mark.parametrize("keywords", KEYWORDS, ids=json.dumps)
def test_json_schemas_are_valid_where_their_meta_schema_says_so(draft: str, keywords: dict[str, Any]) -> None:
    schema = {"$schema": draft, **keywords}
    try:
        META[draft].check_schema(schema, format_checker=None)
    except jsonschema.SchemaError:
        with pytest.raises(InvalidSchema):
            parse(JSON, json.dumps(schema), {})
    else:
        parse(JSON, json.dumps(schema), {})


def test_json_layout_does_not_count_but_order_does_until_normalized() -> None:
    first = parse(JSON, '{"type": "object",\n "title": "x"}', {})
    assert first.text == '{"type":"object","title":"x"}'
    assert first.fingerprint == parse(JSON, first.text, {}).fingerprint
    turned = parse(JSON, '{"title":"x","type":"object"}', {})
    assert turned.fingerprint != first.fingerprint
    assert turned.normalized == first.normalized


ADDRESS = Reference("address.json", "address-value", 1)


@pytest.mark.parametrize(
    ("schema", "valid"),
    [
        ({"$ref": "address.json"}, True),
        ({"$ref": "address.json#"}, True),
        ({"$ref": "address.json#/definitions/zip"}, True),
        ({"$ref": "address.json#/definitions/no"}, False),
        ({"$ref": "http://example.com/address"}, True),
        ({"$id": "http://other.org/x", "$ref": "address.json"}, True),
        ({"$id": "http://example.com/person", "properties": {"a": {"$ref": "address"}}}, True),
        ({"$ref": "missing.json"}, False),
        ({"$ref": "http://169.254.169.254/latest"}, False),
        ({"$ref": "file:///etc/passwd"}, False),
        ({"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}}, False),
        (
            {
                "$ref": "#/definitions/a",
                "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}},
            },
            False,
        ),
        ({"$ref": "#"}, False),
        ({"properties": {"a": {"$ref": "#"}}}, True),
        ({"$ref": "http://json-schema.org/draft-07/schema#"}, True),
        ({"$ref": "#/definitions/a~1b", "definitions": {"a/b": {}}}, True),
        ({"$ref": "#/definitions/a%25b", "definitions": {"a%b": {}}}, True),
        ({"$ref": "#nowhere"}, False),
        ({"$ref": 3}, False),
        ({"enum": [{"$ref": "nowhere.json"}]}, True),
    ],
)
def test_json_references_lead_inside_or_to_registered_schemas(schema: Any, valid: bool) -> None:
    address = {
        "$id": "http://example.com/address",
        "type": "object",
        "definitions": {"zip": {"type": "string"}},
    }
    references = [(ADDRESS, parse(JSON, json.dumps(address), {}))]
    if valid:
        assert parse(JSON, json.dumps(schema), references).references == (ADDRESS,)
    else:
        with pytest.raises(InvalidSchema):
            parse(JSON, json.dumps(schema), references)


def test_avro_references_bring_their_names_and_stay_names() -> None:
    base = parse(AVRO, json.dumps(record("Base", namespace="n")), {})
    middle = parse(
        AVRO,
        json.dumps(record("Middle", {"name": "b", "type": "n.Base"}, namespace="n")),
        {Reference("n.Base", "base", 1): base},
    )
    text = json.dumps(
        record("Top", {"name": "m", "type": "Middle"}, {"name": "b", "type": "Base"}, namespace="n")
    )
    reference = Reference("n.Middle", "middle", 3)
    top = parse(AVRO, text, {reference: middle})
    assert '{"name":"m","type":"Middle"},{"name":"b","type":"Base"}' in top.text
    assert parse(AVRO, top.text, {reference: middle}).fingerprint == top.fingerprint
    with pytest.raises(InvalidSchema):
        parse(AVRO, text, {})


def test_references_are_part_of_what_a_schema_is() -> None:
    target = parse(JSON, '{"type":"string"}', {})
    first = parse(JSON, '{"$ref":"x"}', {Reference("x", "x", 1): target})
    second = parse(JSON, '{"$ref":"x"}', {Reference("x", "x", 2): target})
    assert first.fingerprint != second.fingerprint


def test_a_reference_is_of_the_same_type() -> None:
    target = parse(JSON, '{"type":"string"}', {})
    with pytest.raises(InvalidSchema, match="JSON, not AVRO"):
        parse(AVRO, '"string"', {Reference("x", "x", 1): target})


def test_types_do_not_share_fingerprints() -> None:
    text = '{"type":"string"}'
    assert parse(AVRO, text, {}).fingerprint != parse(JSON, text, {}).fingerprint


def test_patterns_are_kept_and_never_run() -> None:
    parse_json(
        '{"pattern": "(a+)+$", "patternProperties": {"(((a*)*)*)*b": {}}, "default": '
        '"aaaaaaaaaaaaaaaaaaaaaaaaaa!"}',
        {},
    )
    parse_json('{"pattern": "\\\\p{L}(?<x>a)[["}', {})
