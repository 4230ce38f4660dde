"""Rules for the keywords of JSON Schema that are plain values: lengths, limits, multiples, patterns,
enumerations.
"""

from fractions import Fraction
from typing import Any

from moldau.registry.rules.differences import Difference
from moldau.schemas.json_schema.parse import JsonSchema
from moldau.schemas.limits import compact

_WORDS = {
    "maxLength": "MAX_LENGTH",
    "minLength": "MIN_LENGTH",
    "maximum": "MAXIMUM",
    "minimum": "MINIMUM",
    "exclusiveMaximum": "EXCLUSIVE_MAXIMUM",
    "exclusiveMinimum": "EXCLUSIVE_MINIMUM",
    "maxProperties": "MAX_PROPERTIES",
    "minProperties": "MIN_PROPERTIES",
    "maxItems": "MAX_ITEMS",
    "minItems": "MIN_ITEMS",
    "maxContains": "MAX_CONTAINS",
    "minContains": "MIN_CONTAINS",
}


def changed_limits(original: JsonSchema, update: JsonSchema, keywords: tuple[str, ...]) -> list[Difference]:
    """A limit that is new or tighter breaks; one that is gone or looser does not."""
    found: list[Difference] = []
    for keyword in keywords:
        before, after = original.keywords.get(keyword), update.keywords.get(keyword)
        upper = keyword.startswith(("max", "exclusiveMax"))
        if before == after:
            continue
        if before is None:
            change, breaking = "ADDED", True
        elif after is None:
            # Without minContains one match is asked for.
            change, breaking = "REMOVED", keyword == "minContains" and before == 0
        else:
            change = "INCREASED" if after > before else "DECREASED"
            breaking = (change == "DECREASED") == upper
        found.append(Difference(f"{_WORDS[keyword]}_{change}", f"/{keyword}", breaking))
    return found


def changed_values(original: JsonSchema, update: JsonSchema) -> list[Difference]:
    if original.kind == "enum":
        return _enumeration(original, update)
    if original.kind == "string":
        return changed_limits(original, update, ("maxLength", "minLength")) + _pattern(original, update)
    limits = ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum")
    found = changed_limits(original, update, limits) + _multiple(original, update)
    if original.integer != update.integer:
        found.append(Difference("TYPE_NARROWED" if update.integer else "TYPE_EXTENDED", "", update.integer))
    return found


def _pattern(original: JsonSchema, update: JsonSchema) -> list[Difference]:
    before, after = original.keywords.get("pattern"), update.keywords.get("pattern")
    if before == after:
        return []
    change = "ADDED" if before is None else "REMOVED" if after is None else "CHANGED"
    return [Difference(f"PATTERN_{change}", "/pattern", change != "REMOVED")]


def _multiple(original: JsonSchema, update: JsonSchema) -> list[Difference]:
    before, after = original.keywords.get("multipleOf"), update.keywords.get("multipleOf")
    if before == after:
        return []
    if before is None:
        change = "ADDED"
    elif after is None:
        change = "REMOVED"
    elif (Fraction(str(before)) / Fraction(str(after))).denominator == 1:
        change = "REDUCED"
    elif (Fraction(str(after)) / Fraction(str(before))).denominator == 1:
        change = "EXPANDED"
    else:
        change = "CHANGED"
    return [Difference(f"MULTIPLE_OF_{change}", "/multipleOf", change not in ("REMOVED", "REDUCED"))]


def _same(value: Any) -> Any:
    """1 and 1.0 are one number in JSON Schema; true is none."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_same(each) for each in value]
    if isinstance(value, dict):
        return {key: _same(each) for key, each in value.items()}
    return value


def _enumeration(original: JsonSchema, update: JsonSchema) -> list[Difference]:
    before = {compact(_same(each), sort_keys=True) for each in original.keywords["enum"]}
    after = {compact(_same(each), sort_keys=True) for each in update.keywords["enum"]}
    if before == after:
        return []
    change = "EXTENDED" if before < after else "NARROWED" if before > after else "CHANGED"
    return [Difference(f"ENUM_ARRAY_{change}", "/enum", change != "EXTENDED")]
