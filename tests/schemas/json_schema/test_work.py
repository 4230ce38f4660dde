"""Schemas that are little work, and those that may be more than anybody can wait for."""

import json

import pytest

from moldau.schemas.json_schema.work import is_quick

DEPTH = 64


def doubled(keyword, count=40):
    """Each definition refers twice to the one before it."""
    definitions = {"a0": {"type": "integer"}}
    for place in range(1, count):
        twice = {"$ref": f"#/$defs/a{place - 1}"}
        definitions[f"a{place}"] = (
            {"items": {"allOf": [twice, twice]}} if keyword == "items" else {keyword: [twice, twice]}
        )
    return {"$defs": definitions, "$ref": f"#/$defs/a{count - 1}"}


ORDER = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "https://example.com/order",
    "title": "Order",
    "type": "object",
    "required": ["id"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "integer"},
        "pattern": {"type": "string", "pattern": "^(?:[A-Z]+-)+[0-9]{4}$"},
        "address": {"$ref": "#/$defs/address"},
        "bill": {"anyOf": [{"$ref": "#/$defs/address"}, {"type": "null"}]},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
        "sizes": {"prefixItems": [{"type": "integer"}, True]},
    },
    "patternProperties": {"^x-": {"type": "string"}},
    "$defs": {"address": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 50}}}},
}
TREE = {
    "definitions": {
        "node": {
            "properties": {"name": {}, "children": {"type": "array", "items": {"$ref": "#/definitions/node"}}}
        }
    },
    "$ref": "#/definitions/node",
}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        ORDER,
        TREE,
        {"oneOf": [{"type": "integer"}, {"type": "string"}, {"not": {"type": "null"}}]},
        {"if": {"type": "string"}, "then": {"minLength": 1}, "else": {"dependencies": {"a": ["b"]}}},
        {"$defs": {"a~b/c": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/a~0b~1c"}}},
        {"$defs": doubled("allOf")["$defs"]},  # which nobody refers to
    ],
)
def test_usual_schemas_are_quick(schema):
    assert is_quick(json.dumps(schema), DEPTH)


@pytest.mark.parametrize(
    "schema",
    [
        *(doubled(keyword) for keyword in ("allOf", "anyOf", "oneOf", "items")),
        {"items": {"anyOf": [{"$ref": "#"}, {"$ref": "#", "title": "again"}]}},
        {
            "properties": {"a": {"$ref": "#"}},
            "additionalProperties": {"$ref": "#"},
            "patternProperties": {"": {"$ref": "#"}},
        },
        {"$ref": "#"},
        {"allOf": [{"not": {"$ref": "#"}}]},
        {"$ref": "other.json"},
        {"$ref": "#name", "$defs": {"a": {"$anchor": "name"}}},
        {"$ref": "#/$defs/missing"},
        {"properties": {"a": {"$id": "elsewhere", "$ref": "#/x"}}},
        {"pattern": "^(a+)+(?=b)$"},
        {"pattern": r"^(a+)+\1$"},
        {"patternProperties": {"(?<!a)b": {}}},
        {"enum": list(range(3000))},
        {"unevaluatedProperties": False},
    ],
)
def test_what_may_take_long_is_not(schema):
    assert not is_quick(json.dumps(schema), DEPTH)
