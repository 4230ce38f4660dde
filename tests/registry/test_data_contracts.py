"""Metadata and rule sets: absent, null and empty are one."""

import pytest

from moldau.registry.data_contracts import (
    canonical,
    merged_metadata,
    merged_rule_set,
    metadata_form,
    rule_set_form,
)

RULE = {"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"properties": None},
        {"tags": {}, "properties": {}, "sensitive": []},
        {"tags": None, "sensitive": None},
    ],
)
def test_metadata_that_says_nothing(value):
    assert canonical(metadata_form(value)) == ""


def test_metadata_in_one_form():
    long = {"tags": {"a": ["PII", "B", "PII"]}, "properties": {"x": "1"}, "sensitive": ["z", "a"]}
    short = {"sensitive": ["a", "z"], "properties": {"x": "1"}, "tags": {"a": ["B", "PII"]}}
    assert canonical(metadata_form(long)) == canonical(metadata_form(short))
    assert metadata_form({"properties": {"x": "1"}, "sensitive": []}) == {"properties": {"x": "1"}}


@pytest.mark.parametrize(
    "value", [None, {}, {"migrationRules": None}, {"domainRules": [], "encodingRules": []}]
)
def test_a_rule_set_that_says_nothing(value):
    assert canonical(rule_set_form(value)) == ""


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"tags": None, "params": None, "disabled": None},
        {"tags": [], "params": {}, "disabled": False, "doc": "", "onFailure": None},
    ],
)
def test_a_rule_in_one_form(more):
    form = rule_set_form({"domainRules": [{**RULE, **more}], "migrationRules": []})
    assert form == {"domainRules": [{**RULE, "disabled": False}]}
    assert rule_set_form({"domainRules": [{**RULE, "disabled": True}]}) != form


def test_kind_and_mode_have_defaults():
    given = {"domainRules": [{"name": "r", "type": "CEL", "kind": None}]}
    assert rule_set_form(given)["domainRules"] == [
        {"kind": "TRANSFORM", "mode": "WRITEREAD", "disabled": False, "name": "r", "type": "CEL"}
    ]


def test_what_is_no_object_stays_as_it_is():
    assert metadata_form(5) == 5
    assert rule_set_form({"domainRules": ["odd"]}) == {"domainRules": ["odd"]}


def test_layers_of_metadata():
    found = merged_metadata(
        {"properties": {"a": "1", "b": "1"}, "sensitive": ["a"]},
        None,
        {"properties": {"b": "2"}, "sensitive": ["b"]},
    )
    assert found == {"properties": {"a": "1", "b": "2"}, "sensitive": ["a", "b"]}
    assert merged_metadata(None, None) is None
    assert merged_metadata(None, {}) == {}


def test_layers_of_rules_replace_by_name():
    other = {**RULE, "expr": "false"}
    more = {**RULE, "name": "s"}
    found = merged_rule_set({"domainRules": [RULE, more]}, {"domainRules": [other]})
    assert [(rule["name"], rule["expr"]) for rule in found["domainRules"]] == [("s", "true"), ("r", "false")]
