"""JSON Schema differences as tables (old, new, what is found), and data that was valid before checked after
the change.
"""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from moldau.registry.rules.json_schema import changes
from moldau.schemas.json_schema.parse import parse_json

OBJECT: dict[str, Any] = {"type": "object"}
STRING: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
INTEGER: dict[str, Any] = {"type": "integer"}
ARRAY: dict[str, Any] = {"type": "array"}


def found(old: Any, new: Any) -> list[str]:
    before, after = parse_json(json.dumps(old), {}), parse_json(json.dumps(new), {})
    return [f"{'!' * each.breaking}{each.kind} {each.path}" for each in changes(before.root, after.root)]


def obj(properties: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **others}


def closed(properties: dict[str, Any], **others: Any) -> dict[str, Any]:
    return obj(properties, additionalProperties=False, **others)


def string(**others: Any) -> dict[str, Any]:
    return {"type": "string", **others}


def number(**others: Any) -> dict[str, Any]:
    return {"type": "number", **others}


def array(**others: Any) -> dict[str, Any]:
    return {"type": "array", **others}


A, B = {"a": STRING}, {"b": NUMBER}
AB = {**A, **B}
MODEL = "PARTIALLY_OPEN_CONTENT_MODEL"

#: old, new, differences; a breaking one is marked with !
TABLE: list[tuple[Any, Any, list[str]]] = [
    # nothing, everything, and annotations
    ({}, {}, []),
    (True, True, []),
    (False, STRING, []),
    (STRING, {}, []),
    (STRING, True, []),
    ({}, STRING, ["!TYPE_CHANGED #/"]),
    (True, False, ["!TYPE_CHANGED #/"]),
    (STRING, False, ["!TYPE_CHANGED #/"]),
    ({**STRING, "title": "x"}, STRING, ["TITLE_CHANGED #/"]),
    ({"description": "x"}, {"description": "y"}, ["DESCRIPTION_CHANGED #/"]),
    ({"$id": "http://x/a"}, {"$id": "http://x/b"}, ["ID_CHANGED #/"]),
    (string(default="x"), string(default="y"), ["DEFAULT_CHANGED #/"]),
    # types
    (STRING, NUMBER, ["!TYPE_CHANGED #/"]),
    (OBJECT, ARRAY, ["!TYPE_CHANGED #/"]),
    (STRING, {"type": "null"}, ["!TYPE_CHANGED #/"]),
    ({"type": "boolean"}, {"type": "boolean"}, []),
    (INTEGER, NUMBER, ["TYPE_EXTENDED #/"]),
    (NUMBER, INTEGER, ["!TYPE_NARROWED #/"]),
    (STRING, {"type": ["string", "null"]}, ["SUM_TYPE_EXTENDED #/"]),
    ({"type": ["string", "null"]}, STRING, ["!SUM_TYPE_NARROWED #/"]),
    ({"type": ["string"]}, {"type": ["string", "null"]}, ["SUM_TYPE_EXTENDED #/"]),
    ({"type": ["string", "null"]}, {"type": ["null", "string"]}, []),
    ({"type": ["string", "null"]}, {"type": ["null", "integer"]}, ["!COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"]),
    ({"type": ["integer", "null"]}, {"type": ["number", "null"]}, ["TYPE_EXTENDED #/anyOf/0"]),
    (OBJECT, {"type": ["object"]}, []),
    # strings
    (string(maxLength=10), string(maxLength=11), ["MAX_LENGTH_INCREASED #/maxLength"]),
    (string(maxLength=10), string(maxLength=9), ["!MAX_LENGTH_DECREASED #/maxLength"]),
    (STRING, string(maxLength=9), ["!MAX_LENGTH_ADDED #/maxLength"]),
    (string(maxLength=9), STRING, ["MAX_LENGTH_REMOVED #/maxLength"]),
    (string(minLength=1), string(minLength=2), ["!MIN_LENGTH_INCREASED #/minLength"]),
    (string(minLength=2), string(minLength=1), ["MIN_LENGTH_DECREASED #/minLength"]),
    (STRING, string(minLength=1), ["!MIN_LENGTH_ADDED #/minLength"]),
    (string(minLength=1), STRING, ["MIN_LENGTH_REMOVED #/minLength"]),
    (string(pattern="a"), STRING, ["PATTERN_REMOVED #/pattern"]),
    (STRING, string(pattern="a"), ["!PATTERN_ADDED #/pattern"]),
    (string(pattern="a"), string(pattern="b"), ["!PATTERN_CHANGED #/pattern"]),
    (string(pattern="(a+)+$"), string(pattern="(a+)+$"), []),
    (string(format="date"), string(format="uuid"), []),
    # numbers
    (number(maximum=10), number(maximum=11), ["MAXIMUM_INCREASED #/maximum"]),
    (number(maximum=10), number(maximum=9.5), ["!MAXIMUM_DECREASED #/maximum"]),
    (NUMBER, number(maximum=9), ["!MAXIMUM_ADDED #/maximum"]),
    (number(maximum=9), NUMBER, ["MAXIMUM_REMOVED #/maximum"]),
    (number(minimum=1), number(minimum=2), ["!MINIMUM_INCREASED #/minimum"]),
    (number(minimum=2), number(minimum=1), ["MINIMUM_DECREASED #/minimum"]),
    (NUMBER, number(minimum=0), ["!MINIMUM_ADDED #/minimum"]),
    (number(minimum=0), NUMBER, ["MINIMUM_REMOVED #/minimum"]),
    (
        number(exclusiveMaximum=1),
        number(exclusiveMaximum=2),
        ["EXCLUSIVE_MAXIMUM_INCREASED #/exclusiveMaximum"],
    ),
    (
        number(exclusiveMaximum=2),
        number(exclusiveMaximum=1),
        ["!EXCLUSIVE_MAXIMUM_DECREASED #/exclusiveMaximum"],
    ),
    (NUMBER, number(exclusiveMaximum=1), ["!EXCLUSIVE_MAXIMUM_ADDED #/exclusiveMaximum"]),
    (number(exclusiveMaximum=1), NUMBER, ["EXCLUSIVE_MAXIMUM_REMOVED #/exclusiveMaximum"]),
    (
        number(exclusiveMinimum=1),
        number(exclusiveMinimum=2),
        ["!EXCLUSIVE_MINIMUM_INCREASED #/exclusiveMinimum"],
    ),
    (
        number(exclusiveMinimum=2),
        number(exclusiveMinimum=1),
        ["EXCLUSIVE_MINIMUM_DECREASED #/exclusiveMinimum"],
    ),
    (NUMBER, number(exclusiveMinimum=1), ["!EXCLUSIVE_MINIMUM_ADDED #/exclusiveMinimum"]),
    (number(exclusiveMinimum=1), NUMBER, ["EXCLUSIVE_MINIMUM_REMOVED #/exclusiveMinimum"]),
    (number(multipleOf=10), NUMBER, ["MULTIPLE_OF_REMOVED #/multipleOf"]),
    (NUMBER, number(multipleOf=10), ["!MULTIPLE_OF_ADDED #/multipleOf"]),
    (number(multipleOf=10), number(multipleOf=2), ["MULTIPLE_OF_REDUCED #/multipleOf"]),
    (number(multipleOf=2), number(multipleOf=10), ["!MULTIPLE_OF_EXPANDED #/multipleOf"]),
    (number(multipleOf=10), number(multipleOf=11), ["!MULTIPLE_OF_CHANGED #/multipleOf"]),
    (number(multipleOf=0.3), number(multipleOf=0.1), ["MULTIPLE_OF_REDUCED #/multipleOf"]),
    # enumerations
    ({"enum": ["a"]}, {"enum": ["a", "b"]}, ["ENUM_ARRAY_EXTENDED #/enum"]),
    ({"enum": ["a", "b"]}, {"enum": ["b"]}, ["!ENUM_ARRAY_NARROWED #/enum"]),
    ({"enum": ["a"]}, {"enum": ["b"]}, ["!ENUM_ARRAY_CHANGED #/enum"]),
    ({"enum": ["a", "b"]}, {"enum": ["b", "a"]}, []),
    ({"enum": [1]}, {"enum": [1.0]}, []),
    ({"enum": [1]}, {"enum": [True]}, ["!ENUM_ARRAY_CHANGED #/enum"]),
    ({"const": "a"}, {"enum": ["a", "b"]}, ["ENUM_ARRAY_EXTENDED #/enum"]),
    ({"const": "a"}, {"const": "b"}, ["!ENUM_ARRAY_CHANGED #/enum"]),
    ({"const": {"x": 1, "y": 2}}, {"const": {"y": 2, "x": 1}}, []),
    (string(enum=["a"]), STRING, ["PRODUCT_TYPE_NARROWED #/"]),
    (STRING, string(enum=["a"]), ["!PRODUCT_TYPE_EXTENDED #/"]),
    (string(enum=["a"]), string(enum=["a", "b"]), ["ENUM_ARRAY_EXTENDED #/allOf/1/enum"]),
    (string(enum=["a"]), string(enum=["b"]), ["!COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"]),
    # open content models: anything may already be there
    (obj(A), obj(A), []),
    (obj(A), obj(AB), ["!PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b"]),
    (obj(AB), obj(A), ["PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/b"]),
    (obj(A), obj({**A, "b": {}}), ["PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b"]),
    (
        obj(A),
        obj({**A, "b": True}),
        ["PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b"],
    ),
    (
        obj(A),
        obj(B),
        [
            "PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/a",
            "!PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b",
        ],
    ),
    (obj(A), obj({"a": NUMBER}), ["!TYPE_CHANGED #/properties/a"]),
    (obj({"a": INTEGER}), obj({"a": NUMBER}), ["TYPE_EXTENDED #/properties/a"]),
    (obj({"o": obj(A)}), obj({"o": obj({"a": NUMBER})}), ["!TYPE_CHANGED #/properties/o/properties/a"]),
    ({"properties": A}, obj(A), []),
    # closed content models
    (closed(A), closed(A), []),
    (closed(A), closed(AB), ["OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b"]),
    (closed(AB), closed(A), ["!PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"]),
    (
        closed({**A, "b": False}),
        closed(A),
        ["PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"],
    ),
    (
        closed(A),
        closed(AB, required=["b"]),
        ["!REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b"],
    ),
    (
        closed(A),
        closed({**A, "b": number(default=1)}, required=["b"]),
        [
            "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED #/required/b",
            "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b",
        ],
    ),
    (closed(A), obj(A), ["ADDITIONAL_PROPERTIES_ADDED #/additionalProperties"]),
    (obj(A), closed(A), ["!ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"]),
    (
        closed(A),
        obj(AB),
        [
            "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b",
            "ADDITIONAL_PROPERTIES_ADDED #/additionalProperties",
        ],
    ),
    # partially open content models
    (
        obj(A, additionalProperties=STRING),
        obj({**A, "b": STRING}, additionalProperties=STRING),
        [
            f"PROPERTY_ADDED_IS_COVERED_BY_{MODEL} #/properties/b",
            "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b",
        ],
    ),
    (
        obj(A, additionalProperties=STRING),
        obj(AB, additionalProperties=STRING),
        [
            "!TYPE_CHANGED #/properties/b",
            f"!PROPERTY_ADDED_NOT_COVERED_BY_{MODEL} #/properties/b",
            "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b",
        ],
    ),
    (
        closed({**A, "b": STRING}),
        obj(A, additionalProperties=STRING),
        [
            f"PROPERTY_REMOVED_IS_COVERED_BY_{MODEL} #/properties/b",
            "ADDITIONAL_PROPERTIES_ADDED #/additionalProperties",
        ],
    ),
    (
        closed(AB),
        obj(A, additionalProperties=STRING),
        [
            "!TYPE_CHANGED #/properties/b",
            f"!PROPERTY_REMOVED_NOT_COVERED_BY_{MODEL} #/properties/b",
            "ADDITIONAL_PROPERTIES_ADDED #/additionalProperties",
        ],
    ),
    (
        closed(A, patternProperties={"^I_": INTEGER}),
        closed({**A, "I_1": NUMBER}, patternProperties={"^I_": INTEGER}),
        [
            "TYPE_EXTENDED #/properties/I_1",
            f"PROPERTY_ADDED_IS_COVERED_BY_{MODEL} #/properties/I_1",
            "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/I_1",
        ],
    ),
    (
        closed({**A, "I_1": INTEGER}),
        closed(A, patternProperties={"^S_": STRING, "^I_": NUMBER}),
        [
            "TYPE_EXTENDED #/properties/I_1",
            f"PROPERTY_REMOVED_IS_COVERED_BY_{MODEL} #/properties/I_1",
            "ADDITIONAL_PROPERTIES_ADDED #/patternProperties/^S_",
            "ADDITIONAL_PROPERTIES_ADDED #/patternProperties/^I_",
        ],
    ),
    (
        obj({}, additionalProperties=STRING),
        obj({}),
        ["ADDITIONAL_PROPERTIES_EXTENDED #/additionalProperties"],
    ),
    (
        obj({}),
        obj({}, additionalProperties=STRING),
        ["!ADDITIONAL_PROPERTIES_NARROWED #/additionalProperties"],
    ),
    (
        obj({}, additionalProperties=INTEGER),
        obj({}, additionalProperties=NUMBER),
        ["TYPE_EXTENDED #/additionalProperties"],
    ),
    (
        obj({}, additionalProperties=STRING),
        obj({}, additionalProperties=NUMBER),
        ["!TYPE_CHANGED #/additionalProperties"],
    ),
    # required
    (obj(A, required=["a"]), obj(A), ["REQUIRED_ATTRIBUTE_REMOVED #/required/a"]),
    (obj(A), obj(A, required=["a"]), ["!REQUIRED_ATTRIBUTE_ADDED #/required/a"]),
    (
        obj({"a": string(default="x")}),
        obj({"a": string(default="x")}, required=["a"]),
        ["REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED #/required/a"],
    ),
    (OBJECT, {**OBJECT, "required": ["a"]}, ["!REQUIRED_ATTRIBUTE_ADDED #/required/a"]),
    # counts and dependencies
    (
        {**OBJECT, "maxProperties": 3},
        {**OBJECT, "maxProperties": 4},
        ["MAX_PROPERTIES_INCREASED #/maxProperties"],
    ),
    (
        {**OBJECT, "maxProperties": 4},
        {**OBJECT, "maxProperties": 3},
        ["!MAX_PROPERTIES_DECREASED #/maxProperties"],
    ),
    (OBJECT, {**OBJECT, "maxProperties": 3}, ["!MAX_PROPERTIES_ADDED #/maxProperties"]),
    ({**OBJECT, "maxProperties": 3}, OBJECT, ["MAX_PROPERTIES_REMOVED #/maxProperties"]),
    (
        {**OBJECT, "minProperties": 3},
        {**OBJECT, "minProperties": 4},
        ["!MIN_PROPERTIES_INCREASED #/minProperties"],
    ),
    (
        {**OBJECT, "minProperties": 4},
        {**OBJECT, "minProperties": 3},
        ["MIN_PROPERTIES_DECREASED #/minProperties"],
    ),
    (OBJECT, {**OBJECT, "minProperties": 3}, ["!MIN_PROPERTIES_ADDED #/minProperties"]),
    ({**OBJECT, "minProperties": 3}, OBJECT, ["MIN_PROPERTIES_REMOVED #/minProperties"]),
    ({**OBJECT, "dependencies": {"a": ["b"]}}, OBJECT, ["DEPENDENCY_ARRAY_REMOVED #/dependencies/a"]),
    (OBJECT, {**OBJECT, "dependencies": {"a": ["b"]}}, ["!DEPENDENCY_ARRAY_ADDED #/dependencies/a"]),
    (
        {**OBJECT, "dependencies": {"a": ["b"]}},
        {**OBJECT, "dependencies": {"a": ["b", "c"]}},
        ["!DEPENDENCY_ARRAY_EXTENDED #/dependencies/a"],
    ),
    (
        {**OBJECT, "dependencies": {"a": ["b", "c"]}},
        {**OBJECT, "dependencies": {"a": ["b"]}},
        ["DEPENDENCY_ARRAY_NARROWED #/dependencies/a"],
    ),
    (
        {**OBJECT, "dependencies": {"a": ["b"]}},
        {**OBJECT, "dependencies": {"a": ["c"]}},
        ["!DEPENDENCY_ARRAY_CHANGED #/dependencies/a"],
    ),
    ({**OBJECT, "dependencies": {"a": STRING}}, OBJECT, ["DEPENDENCY_SCHEMA_REMOVED #/dependencies/a"]),
    (OBJECT, {**OBJECT, "dependencies": {"a": STRING}}, ["!DEPENDENCY_SCHEMA_ADDED #/dependencies/a"]),
    (
        {**OBJECT, "dependencies": {"a": STRING}},
        {**OBJECT, "dependencies": {"a": NUMBER}},
        ["!TYPE_CHANGED #/dependencies/a"],
    ),
    (OBJECT, {**OBJECT, "propertyNames": {"maxLength": 3}}, ["!TYPE_CHANGED #/propertyNames"]),
    # arrays
    (array(items=INTEGER), array(items=NUMBER), ["TYPE_EXTENDED #/items"]),
    (array(items=STRING), array(items=NUMBER), ["!TYPE_CHANGED #/items"]),
    (ARRAY, array(items=STRING), ["!SCHEMA_ADDED #/items"]),
    (array(items=STRING), ARRAY, ["SCHEMA_REMOVED #/items"]),
    (ARRAY, array(items={}), []),
    (array(maxItems=3), array(maxItems=4), ["MAX_ITEMS_INCREASED #/maxItems"]),
    (array(maxItems=4), array(maxItems=3), ["!MAX_ITEMS_DECREASED #/maxItems"]),
    (ARRAY, array(maxItems=3), ["!MAX_ITEMS_ADDED #/maxItems"]),
    (array(maxItems=3), ARRAY, ["MAX_ITEMS_REMOVED #/maxItems"]),
    (array(minItems=3), array(minItems=4), ["!MIN_ITEMS_INCREASED #/minItems"]),
    (array(minItems=4), array(minItems=3), ["MIN_ITEMS_DECREASED #/minItems"]),
    (ARRAY, array(minItems=3), ["!MIN_ITEMS_ADDED #/minItems"]),
    (array(minItems=3), ARRAY, ["MIN_ITEMS_REMOVED #/minItems"]),
    (ARRAY, array(uniqueItems=True), ["!UNIQUE_ITEMS_ADDED #/uniqueItems"]),
    (array(uniqueItems=True), ARRAY, ["UNIQUE_ITEMS_REMOVED #/uniqueItems"]),
    (ARRAY, array(contains=STRING), ["!SCHEMA_ADDED #/contains"]),
    (array(contains=STRING), ARRAY, []),
    # tuples
    (array(items=[STRING]), array(items=[NUMBER]), ["!TYPE_CHANGED #/items/0"]),
    (array(items=[STRING]), array(items=[STRING, NUMBER]), ["!ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"]),
    (
        array(items=[STRING]),
        array(items=[STRING, {}]),
        ["ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"],
    ),
    (
        array(items=[STRING, NUMBER]),
        array(items=[STRING]),
        ["ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL #/items/1"],
    ),
    (
        array(items=[STRING], additionalItems=False),
        array(items=[STRING, NUMBER], additionalItems=False),
        ["ITEM_ADDED_TO_CLOSED_CONTENT_MODEL #/items/1"],
    ),
    (
        array(items=[STRING, NUMBER], additionalItems=False),
        array(items=[STRING], additionalItems=False),
        ["!ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1"],
    ),
    (
        array(items=[STRING, False], additionalItems=False),
        array(items=[STRING], additionalItems=False),
        ["ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1"],
    ),
    (
        array(items=[STRING, INTEGER], additionalItems=NUMBER),
        array(items=[STRING], additionalItems=NUMBER),
        ["TYPE_EXTENDED #/items/1", f"ITEM_REMOVED_IS_COVERED_BY_{MODEL} #/items/1"],
    ),
    (
        array(items=[STRING], additionalItems=INTEGER),
        array(items=[STRING, STRING], additionalItems=INTEGER),
        ["!TYPE_CHANGED #/items/1", f"!ITEM_ADDED_NOT_COVERED_BY_{MODEL} #/items/1"],
    ),
    (
        array(items=[STRING]),
        array(items=[STRING], additionalItems=False),
        ["!ADDITIONAL_ITEMS_REMOVED #/additionalItems"],
    ),
    (
        array(items=[STRING], additionalItems=False),
        array(items=[STRING]),
        ["ADDITIONAL_ITEMS_ADDED #/additionalItems"],
    ),
    (
        array(items=[STRING]),
        array(items=[STRING], additionalItems=NUMBER),
        ["!ADDITIONAL_ITEMS_NARROWED #/additionalItems"],
    ),
    (
        array(items=[STRING], additionalItems=NUMBER),
        array(items=[STRING]),
        ["ADDITIONAL_ITEMS_EXTENDED #/additionalItems"],
    ),
    # combinations
    ({"oneOf": [STRING]}, {"oneOf": [NUMBER]}, ["!COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"]),
    ({"oneOf": [STRING]}, {"oneOf": [NUMBER, STRING]}, ["SUM_TYPE_EXTENDED #/"]),
    ({"oneOf": [NUMBER, STRING]}, {"oneOf": [STRING]}, ["!SUM_TYPE_NARROWED #/"]),
    ({"anyOf": [NUMBER, STRING]}, {"anyOf": [STRING, NUMBER]}, []),
    ({"anyOf": [INTEGER, STRING]}, {"anyOf": [STRING, NUMBER]}, ["TYPE_EXTENDED #/anyOf/0"]),
    ({"allOf": [STRING, {"maxLength": 3}]}, {"allOf": [STRING]}, ["PRODUCT_TYPE_NARROWED #/"]),
    ({"allOf": [STRING]}, {"allOf": [STRING, {"maxLength": 3}]}, ["!PRODUCT_TYPE_EXTENDED #/"]),
    ({"oneOf": [NUMBER, STRING]}, {"anyOf": [NUMBER, STRING]}, ["COMBINED_TYPE_EXTENDED #/"]),
    ({"anyOf": [NUMBER, STRING]}, {"oneOf": [NUMBER, STRING]}, ["!COMBINED_TYPE_CHANGED #/"]),
    ({"anyOf": [NUMBER, STRING]}, {"allOf": [NUMBER, STRING]}, ["!COMBINED_TYPE_CHANGED #/"]),
    ({"anyOf": [STRING]}, {"oneOf": [STRING]}, ["COMBINED_TYPE_EXTENDED #/"]),
    (STRING, {"oneOf": [STRING]}, []),
    ({"allOf": [STRING]}, STRING, []),
    (STRING, {"oneOf": [NUMBER, STRING]}, ["SUM_TYPE_EXTENDED #/"]),
    (STRING, {"oneOf": [NUMBER, INTEGER]}, ["!TYPE_CHANGED #/"]),
    (
        {"oneOf": [obj(A), obj(B)]},
        {"oneOf": [obj(A), obj({"b": STRING})]},
        ["!COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
    ),
    ({"not": NUMBER}, {"not": INTEGER}, ["NOT_TYPE_NARROWED #/not"]),
    ({"not": INTEGER}, {"not": NUMBER}, ["!NOT_TYPE_EXTENDED #/not"]),
    (
        {"if": STRING, "then": {"maxLength": 3}},
        {"if": STRING, "then": {"maxLength": 4}},
        ["MAX_LENGTH_INCREASED #/then/maxLength"],
    ),
    (
        {"if": STRING, "then": {"maxLength": 3}},
        {"if": NUMBER, "then": {"maxLength": 3}},
        ["!COMBINED_TYPE_CHANGED #/if"],
    ),
    # references
    (
        {"$ref": "#/definitions/x", "definitions": {"x": STRING}},
        {"$ref": "#/definitions/y", "definitions": {"y": STRING}},
        [],
    ),
    (
        obj({"a": {"$ref": "#/definitions/x"}}, definitions={"x": INTEGER}),
        obj({"a": NUMBER}),
        ["TYPE_EXTENDED #/properties/a"],
    ),
    (
        obj({"a": {"$ref": "#/definitions/x"}}, definitions={"x": STRING}),
        obj({"a": {"$ref": "#/definitions/x"}}, definitions={"x": NUMBER}),
        ["!TYPE_CHANGED #/properties/a"],
    ),
    (
        obj({"next": {"$ref": "#"}, "v": INTEGER}),
        obj({"next": {"$ref": "#"}, "v": NUMBER}),
        ["TYPE_EXTENDED #/properties/v"],
    ),
    (
        obj({"next": {"$ref": "#"}, "v": STRING}),
        obj({"next": {"$ref": "#"}, "v": NUMBER}),
        ["!TYPE_CHANGED #/properties/v"],
    ),
]


@pytest.mark.parametrize(("old", "new", "expected"), TABLE)
def test_differences(old: Any, new: Any, expected: list[str]) -> None:
    assert found(old, new) == expected


D4 = "http://json-schema.org/draft-04/schema#"
D6 = "http://json-schema.org/draft-06/schema#"
D7 = "http://json-schema.org/draft-07/schema#"
D2019 = "https://json-schema.org/draft/2019-09/schema"
D2020 = "https://json-schema.org/draft/2020-12/schema"

DRAFTS: list[tuple[str, Any, Any, list[str]]] = [
    (
        D4,
        number(maximum=3, exclusiveMaximum=True),
        number(maximum=4, exclusiveMaximum=True),
        ["EXCLUSIVE_MAXIMUM_INCREASED #/exclusiveMaximum"],
    ),
    (
        D4,
        number(maximum=3),
        number(maximum=3, exclusiveMaximum=True),
        ["MAXIMUM_REMOVED #/maximum", "!EXCLUSIVE_MAXIMUM_ADDED #/exclusiveMaximum"],
    ),
    (D4, number(minimum=3, exclusiveMinimum=False), number(minimum=3), []),
    (D4, closed(A), closed(AB), ["OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b"]),
    (D4, {"const": 1}, {"const": 2}, []),
    (D6, {"const": 1}, {"const": 2}, ["!ENUM_ARRAY_CHANGED #/enum"]),
    (D6, {"if": STRING, "then": NUMBER}, {}, []),
    (D7, {"$ref": "#/definitions/x", "type": "number", "definitions": {"x": STRING}}, STRING, []),
    (
        D2019,
        {"$ref": "#/$defs/x", "maxLength": 3, "$defs": {"x": STRING}},
        STRING,
        ["PRODUCT_TYPE_NARROWED #/"],
    ),
    (
        D2019,
        {**OBJECT, "dependentRequired": {"a": ["b"]}},
        OBJECT,
        ["DEPENDENCY_ARRAY_REMOVED #/dependencies/a"],
    ),
    (
        D2019,
        OBJECT,
        {**OBJECT, "dependentRequired": {"a": ["b"]}},
        ["!DEPENDENCY_ARRAY_ADDED #/dependencies/a"],
    ),
    (
        D2019,
        OBJECT,
        {**OBJECT, "dependentSchemas": {"a": STRING}},
        ["!DEPENDENCY_SCHEMA_ADDED #/dependencies/a"],
    ),
    (
        D2019,
        array(contains=STRING, minContains=1),
        array(contains=STRING, minContains=2),
        ["!MIN_CONTAINS_INCREASED #/minContains"],
    ),
    (
        D2019,
        array(contains=STRING, maxContains=1),
        array(contains=STRING, maxContains=2),
        ["MAX_CONTAINS_INCREASED #/maxContains"],
    ),
    (
        D2019,
        obj(A, unevaluatedProperties=False),
        obj(A),
        ["UNEVALUATED_PROPERTIES_ADDED #/unevaluatedProperties"],
    ),
    (
        D2019,
        obj(A),
        obj(A, unevaluatedProperties=False),
        ["!UNEVALUATED_PROPERTIES_REMOVED #/unevaluatedProperties"],
    ),
    (
        D2019,
        obj(A, unevaluatedProperties=False),
        obj(AB, unevaluatedProperties=False),
        ["OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b"],
    ),
    (D2019, obj({"n": {"$recursiveRef": "#"}}), obj({"n": {"$recursiveRef": "#"}}), []),
    (D2020, array(prefixItems=[STRING]), array(prefixItems=[NUMBER]), ["!TYPE_CHANGED #/items/0"]),
    (
        D2020,
        array(prefixItems=[STRING], items=False),
        array(prefixItems=[STRING, NUMBER], items=False),
        ["ITEM_ADDED_TO_CLOSED_CONTENT_MODEL #/items/1"],
    ),
    (
        D2020,
        array(prefixItems=[STRING], items=False),
        array(prefixItems=[STRING]),
        ["ADDITIONAL_ITEMS_ADDED #/additionalItems"],
    ),
    (D2020, array(items=INTEGER), array(items=NUMBER), ["TYPE_EXTENDED #/items"]),
    (
        D2020,
        array(items=INTEGER),
        array(prefixItems=[NUMBER], items=INTEGER),
        ["!ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/0"],
    ),
    (
        D2020,
        obj({"n": {"$ref": "#node"}}, **{"$defs": {"x": {"$anchor": "node", **INTEGER}}}),
        obj({"n": NUMBER}),
        ["TYPE_EXTENDED #/properties/n"],
    ),
    (
        D2020,
        obj({"n": {"$dynamicRef": "#node"}}, **{"$dynamicAnchor": "node"}),
        obj({"n": {"$dynamicRef": "#node"}}, **{"$dynamicAnchor": "node"}),
        [],
    ),
]


@pytest.mark.parametrize(("draft", "old", "new", "expected"), DRAFTS)
def test_drafts(draft: str, old: Any, new: Any, expected: list[str]) -> None:
    assert found({"$schema": draft, **old}, {"$schema": draft, **new}) == expected


def test_a_pattern_that_could_run_for_ever_is_not_run() -> None:
    """(a+)+$ may match or not: the property must fit it, and must not need it."""
    evil = {"^(a+)+$": STRING}
    name = "a" * 40 + "!"
    answer = found(closed({name: STRING}), closed({}, patternProperties=evil))
    assert f"!PROPERTY_REMOVED_NOT_COVERED_BY_{MODEL} #/properties/{name}" in answer
    answer = found(closed({name: STRING}), obj({}, patternProperties=evil, additionalProperties=STRING))
    assert f"PROPERTY_REMOVED_IS_COVERED_BY_{MODEL} #/properties/{name}" in answer


@pytest.mark.slow
def test_many_patterns_are_not_tried_on_many_names() -> None:
    names = {f"p{index}": STRING for index in range(1000)}
    patterns = {f"^{index}.*x.*": STRING for index in range(1000)}
    assert found(closed(names), closed({}, patternProperties=patterns)) == ["!SCHEMA_TOO_COMPLEX #/"]


def test_keywords_of_later_drafts_are_remarks() -> None:
    odd = {"type": "object", "dependentRequired": 3, "minContains": "x"}
    assert found(odd, OBJECT) == []
    assert found({"$schema": D4, "propertyNames": 3}, {"$schema": D4}) == []


def test_many_alternatives_end_with_an_answer() -> None:
    def nested(leaf: Any) -> Any:
        definitions: dict[str, Any] = {"d0": leaf}
        for level in range(1, 30):
            below = {"$ref": f"#/definitions/d{level - 1}"}
            definitions[f"d{level}"] = {"anyOf": [obj({"a": below}), obj({"b": below}), obj({"c": below})]}
        return {"$ref": "#/definitions/d29", "definitions": definitions}

    assert found(nested(STRING), nested(STRING)) == []
    assert any(each.startswith("!") for each in found(nested(STRING), nested(NUMBER)))


# Whatever is allowed keeps old data valid. Defaults are left out: they promise what a validator does not
# check.

NAMES = st.sampled_from(["a", "b", "c", "I_1"])
DATA = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(-3, 3)
    | st.sampled_from(["", "x", "xyz", "xyzxyz"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


def maybe(strategy: st.SearchStrategy[Any], keyword: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.just({}) | strategy.map(lambda value: {keyword: value})


def merged(*parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(*parts).map(lambda each: {key: value for part in each for key, value in part.items()})


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2) -> Any:
    kind = draw(st.sampled_from(["string", "number", "integer", "object", "array", "enum", "anyOf", "any"]))
    if kind == "any" or (depth == 0 and kind in ("object", "array", "anyOf")):
        return draw(st.sampled_from([{}, True, False, STRING, NUMBER]))
    if kind == "string":
        limits = (maybe(st.integers(0, 4), "maxLength"), maybe(st.integers(0, 2), "minLength"))
        return {**STRING, **draw(merged(*limits))}
    if kind in ("number", "integer"):
        limits = (maybe(st.integers(0, 4), "maximum"), maybe(st.integers(-3, 1), "exclusiveMinimum"))
        return {"type": kind, **draw(merged(*limits, maybe(st.integers(1, 4), "multipleOf")))}
    if kind == "enum":
        return {"enum": draw(st.lists(st.sampled_from([1, 2, "x", None, True]), min_size=1, unique_by=repr))}
    below = schemas(depth - 1)
    if kind == "anyOf":
        return {"anyOf": draw(st.lists(below, min_size=1, max_size=3))}
    if kind == "array":
        items = maybe(below, "items") | st.lists(below, min_size=1, max_size=2).map(
            lambda each: {"items": each}
        )
        return {
            **ARRAY,
            **draw(merged(items, maybe(below, "additionalItems"), maybe(st.integers(0, 2), "maxItems"))),
        }
    properties = maybe(st.dictionaries(NAMES, below, max_size=3), "properties")
    patterns = maybe(st.dictionaries(st.sampled_from(["^I_", "a"]), below, max_size=1), "patternProperties")
    rest = maybe(below | st.booleans(), "additionalProperties")
    required = maybe(st.lists(NAMES, max_size=1), "required")
    return {**OBJECT, **draw(merged(properties, patterns, rest, required))}


@st.composite
def edited(draw: st.DrawFn, schema: Any, depth: int = 2) -> Any:
    if not isinstance(schema, dict) or draw(st.integers(0, 9)) == 0:
        return draw(schemas(max(depth, 0)))
    made = dict(schema)
    for keyword in list(made):
        action = draw(st.sampled_from(["keep", "keep", "edit", "drop"]))
        value = made[keyword]
        if action == "drop" and keyword not in ("type", "enum", "anyOf"):
            del made[keyword]
        elif action == "edit" and keyword in ("properties", "patternProperties"):
            made[keyword] = {name: draw(edited(each, depth - 1)) for name, each in value.items()}
        elif action == "edit" and keyword in ("items", "additionalProperties", "additionalItems"):
            made[keyword] = (
                [draw(edited(each, depth - 1)) for each in value]
                if isinstance(value, list)
                else draw(edited(value, depth - 1))
            )
        elif action == "edit" and keyword == "anyOf":
            made[keyword] = [*value, draw(schemas(0))]
        elif action == "edit" and isinstance(value, int) and not isinstance(value, bool):
            made[keyword] = max(value + draw(st.integers(-1, 2)), 1)
    if made.get("type") == "object" and draw(st.booleans()):
        made["properties"] = {**made.get("properties", {}), draw(NAMES): draw(schemas(0))}
    return made


def valid(validator: Any, value: Any) -> bool:
    try:
        return bool(validator.is_valid(value))
    except TypeError:
        # The library cannot take `items: true` beside `additionalItems`.
        assume(False)
        raise


@pytest.mark.slow
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_is_allowed_keeps_old_data_valid(data: st.DataObject) -> None:
    old = data.draw(schemas())
    new = data.draw(edited(old))
    assume(not any(each.startswith("!") for each in found(old, new)))
    before, after = jsonschema.Draft7Validator(old), jsonschema.Draft7Validator(new)
    for value in data.draw(st.lists(DATA, min_size=5, max_size=10)):
        if valid(before, value):
            assert valid(after, value), (old, new, value)


TUPLE, OPEN_TUPLE = array(items=[INTEGER], additionalItems=False), array(items=[INTEGER])


@pytest.mark.parametrize(
    ("old", "new", "compatible"),
    [
        (array(items=INTEGER), OPEN_TUPLE, False),
        (OPEN_TUPLE, array(items=INTEGER), False),
        (array(items=INTEGER), TUPLE, False),
        (TUPLE, OPEN_TUPLE, True),
        (array(items=[INTEGER, INTEGER]), OPEN_TUPLE, True),
        (OPEN_TUPLE, array(items=[INTEGER, INTEGER]), False),
    ],
)
def test_an_array_is_no_tuple(old: Any, new: Any, compatible: bool) -> None:
    assert any(each.startswith("!") for each in found(old, new)) != compatible
