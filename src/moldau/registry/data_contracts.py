"""Metadata and rule sets of schemas in their one form, so that what means the same is the same.

Clients leave out, write as null or write as empty what they have nothing to say about. Here all of that is
left out, sets are sorted, and what a rule does not say has the value that it stands for. Nothing else is
touched: fields that are not known here are kept.

Invariant: pure. None is "not given", an empty object "given, and there is none"; both are the same schema.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

#: What a client gives: an object of JSON, or None.
Contract: TypeAlias = Any

_RULES = ("migrationRules", "domainRules", "encodingRules")
#: What a rule is that does not say so itself.
_RULE_DEFAULTS: Mapping[str, Any] = {"kind": "TRANSFORM", "mode": "WRITEREAD", "disabled": False}


def metadata_form(value: Contract) -> Contract:
    """Metadata with tags and sensitive names as sorted sets, and without what is empty."""
    if not isinstance(value, dict):
        return value
    found = dict(value)
    if isinstance(found.get("tags"), dict):
        found["tags"] = {path: _set(tags) for path, tags in found["tags"].items()}
    found["sensitive"] = _set(found.get("sensitive"))
    return _without_empty(found)


def rule_set_form(value: Contract) -> Contract:
    """A rule set with every rule in full, and without what is empty."""
    if not isinstance(value, dict):
        return value
    found = dict(value)
    for name in _RULES:
        if isinstance(found.get(name), list):
            found[name] = [_rule_form(rule) for rule in found[name]]
    return _without_empty(found)


def _rule_form(rule: Any) -> Any:
    if not isinstance(rule, dict):
        return rule
    given = _without_empty({**rule, "tags": _set(rule.get("tags"))})
    return {**_RULE_DEFAULTS, **given}


def _set(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return sorted(set(value))
    return value


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, {}, [], "")}


def canonical(form: Contract) -> str:
    """By which two forms are told apart; empty where there is nothing to tell."""
    return json.dumps(form, sort_keys=True) if form not in (None, {}) else ""


def merged_metadata(*layers: Contract) -> Contract:
    """One out of several, later ones above earlier ones; sensitive names add up. None when there is none."""
    given = _given(layers)
    found: dict[str, Any] = {}
    for layer in given:
        for name, value in layer.items():
            if isinstance(value, dict) and isinstance(found.get(name), dict):
                value = {**found[name], **value}
            elif isinstance(value, list) and isinstance(found.get(name), list):
                value = _set(found[name] + value)
            found[name] = value
    return metadata_form(found) if given else None


def merged_rule_set(*layers: Contract) -> Contract:
    """One out of several: a later rule takes the place of an earlier one of its name."""
    given = _given(layers)
    found: dict[str, Any] = {}
    for layer in given:
        for name, value in layer.items():
            if isinstance(value, list) and isinstance(found.get(name), list):
                replaced = {_name(rule) for rule in value}
                value = [*(rule for rule in found[name] if _name(rule) not in replaced), *value]
            found[name] = value
    return rule_set_form(found) if given else None


def _given(layers: Iterable[Contract]) -> list[dict[str, Any]]:
    return [layer for layer in layers if isinstance(layer, dict)]


def _name(rule: Any) -> Any:
    return rule.get("name") if isinstance(rule, dict) else None
