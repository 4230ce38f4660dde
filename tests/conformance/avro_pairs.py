"""Pairs of random Avro schemas, older and newer, most of them alike: by which two checkers are compared."""

from __future__ import annotations

import json
import random
from typing import Any

from moldau.registry.schemas import InvalidSchema, ParsedSchema, SchemaType, parse

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
DEFAULTS: dict[str, Any] = {
    "null": None,
    "boolean": True,
    "int": 1,
    "long": 1,
    "float": 1.5,
    "double": 1.5,
    "bytes": "b",
    "string": "s",
}
#: What a newer version may have in place of something in the older one.
CHANGES = (
    *(('"int"', '"long"'), ('"long"', '"int"'), ('"string"', '"bytes"'), ('"float"', '"double"')),
    *(('"a"', '"z"'), ('"A"', '"Q"'), ('"R"', '"W"'), ('"null"', '"boolean"'), ("4", "8")),
)


def pairs(count: int, seed: int) -> list[tuple[ParsedSchema, ParsedSchema]]:
    draw = random.Random(seed)
    found: list[tuple[ParsedSchema, ParsedSchema]] = []
    while len(found) < count:
        old = json.dumps(_schema(draw, 3, set()))
        new = _changed(draw, old) if draw.random() < 0.7 else json.dumps(_schema(draw, 3, set()))
        try:
            found.append((parse(SchemaType.AVRO, old), parse(SchemaType.AVRO, new)))
        except InvalidSchema:
            continue
    return found


def laid_out(count: int, seed: int) -> list[str]:
    """Texts of schemas with their attributes in any order, and with properties that Avro does not know."""
    draw = random.Random(seed)
    return [json.dumps(_mixed(draw, _schema(draw, 3, set())), ensure_ascii=False) for _ in range(count)]


def _mixed(draw: random.Random, value: Any) -> Any:
    if isinstance(value, list):
        return [_mixed(draw, each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {key: each if key == "default" else _mixed(draw, each) for key, each in value.items()}
    if draw.random() < 0.3:
        found[draw.choice(("doc", "logicalType", "a.b"))] = draw.choice(
            ("", "ü", 1, {"b": [{"d": 1, "c": 2}], "a": 2})
        )
    return dict(draw.sample(list(found.items()), len(found)))


def _changed(draw: random.Random, text: str) -> str:
    for before, after in draw.sample(CHANGES, draw.randint(0, 2)):
        text = text.replace(before, after, draw.choice((1, -1)))
    return text


def _schema(draw: random.Random, depth: int, names: set[str]) -> Any:
    kind = draw.choice(("plain", "plain", "array", "map", "enum", "fixed", "union", "record", "record"))
    if depth <= 0 or kind == "plain":
        return draw.choice(PRIMITIVES)
    if kind in ("array", "map"):
        inner = "items" if kind == "array" else "values"
        return {"type": kind, inner: _schema(draw, depth - 1, names)}
    if kind == "union":
        return _union(draw, depth, names)
    name = draw.choice("EFGXYRSTU")
    if name in names:
        return draw.choice(PRIMITIVES)
    names.add(name)
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": draw.choice((2, 4))}
    if kind == "enum":
        symbols = draw.sample("ABCD", draw.randint(1, 4))
        default = {"default": symbols[0]} if draw.random() < 0.3 else {}
        return {"type": "enum", "name": name, "symbols": symbols, **default}
    return _record(draw, depth, name, names)


def _union(draw: random.Random, depth: int, names: set[str]) -> list[Any]:
    branches: dict[str, Any] = {}
    for _ in range(draw.randint(1, 4)):
        branch = _schema(draw, depth - 1, names)
        if isinstance(branch, str):
            branches[branch] = branch
        elif isinstance(branch, dict):
            branches[branch.get("name", branch["type"])] = branch
    return list(branches.values()) or ["null"]


def _record(draw: random.Random, depth: int, name: str, names: set[str]) -> dict[str, Any]:
    fields = []
    for each in draw.sample("abcd", draw.randint(0, 4)):
        kind = _schema(draw, depth - 1, names)
        field: dict[str, Any] = {"name": each, "type": kind}
        first = kind[0] if isinstance(kind, list) else kind
        if isinstance(first, str) and first in DEFAULTS and draw.random() < 0.3:
            field["default"] = DEFAULTS[first]
        if draw.random() < 0.1:
            field["aliases"] = [draw.choice([other for other in "abcdz" if other != each])]
        fields.append(field)
    made: dict[str, Any] = {"type": "record", "name": name, "fields": fields}
    if draw.random() < 0.15:
        made["aliases"] = [draw.choice("RSTU")]
    if draw.random() < 0.2:
        made["namespace"] = "n"
    return made
