"""How much work a JSON Schema may be for whoever checks values with it.

A few lines are enough for a schema that looks at one small value more often than anybody can wait for: each
definition refers twice to the one before it.

Pure. Invariant: what is called quick looks a few times at each part of a value. What is not certain is not
quick, so a good schema may be called slow.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

#: How often each part on a path through a value may be looked at, and how many JSON values the schema has.
_LOOKS_OF_A_PART, _MORE_LOOKS = 4, 16
_MOST_VALUES = 2_000
#: What is looked for by name, moves the place from which references count, or looks at everything again.
_UNCERTAIN = frozenset(
    {
        "$anchor",
        "$dynamicAnchor",
        "$dynamicRef",
        "$recursiveAnchor",
        "$recursiveRef",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
#: Parts of patterns for which the quick way to match them is not enough.
_BACKTRACKING = re.compile(r"\(\?[^:]|\\[1-9k]")


class _Slow(Exception):
    """Nobody knows how slow."""


class _Node(NamedTuple):
    """A schema with others by their ids: those for the same value, and those for one of its parts."""

    same: list[int]
    #: Of each way to choose a part those that look at it.
    parts: list[list[int]]


def is_quick(text: str, depth: int) -> bool:
    """Whether values that are nested no more deeply than ``depth`` are checked soon; the schema is valid."""
    try:
        return _Looks(json.loads(text), depth).are_few()
    except (_Slow, RecursionError, ValueError):
        return False


class _Looks:
    """Counts how often a path through a value is looked at, level by level from its end."""

    def __init__(self, root: Any, depth: int) -> None:
        self._root = root
        self._depth = depth
        self._most = _LOOKS_OF_A_PART * depth + _MORE_LOOKS
        self._nodes: dict[int, _Node] = {}
        if _has_slow_parts(root):
            raise _Slow
        self._read(root)

    def are_few(self) -> bool:
        below = dict.fromkeys(self._nodes, 0)
        for _ in range(self._depth):
            found: dict[int, int] = {}
            for each in self._nodes:
                self._count(each, below, found)
            if found == below or found[id(self._root)] > self._most:
                return found[id(self._root)] <= self._most
            below = found
        return True

    def _count(self, node: int, below: dict[int, int], found: dict[int, int]) -> int:
        if node not in found:
            found[node] = self._most + 1  # of one that leads to itself with the same value
            same, parts = self._nodes[node]
            looks = 1 + sum(self._count(each, below, found) for each in same)
            looks += max((sum(below[each] for each in part) for part in parts), default=0)
            found[node] = min(looks, self._most + 1)
        return found[node]

    def _read(self, schema: Any) -> int:
        """The id of a schema that is among the nodes with all that it leads to."""
        if id(schema) in self._nodes:
            return id(schema)
        node = self._nodes[id(schema)] = _Node([], [])
        if isinstance(schema, bool):
            return id(schema)
        if not isinstance(schema, dict):
            raise _Slow
        node.same.extend(self._read(each) for each in self._of_same_value(schema))
        more = [schema[name] for name in ("additionalProperties", "propertyNames") if name in schema]
        always = [self._read(each) for each in (*_listed(schema, "patternProperties"), *more)]
        named = [self._read(each) for each in _listed(schema, "properties")]
        node.parts.extend([[*always, each] for each in named] or [always])
        items = schema.get("items")
        rest = [self._read(schema[name]) for name in ("additionalItems", "contains") if name in schema]
        rest += [] if items is None or isinstance(items, list) else [self._read(items)]
        places = [self._read(each) for each in (*_listed(schema, "prefixItems"), *_listed(schema, "items"))]
        node.parts.extend([[*rest, each] for each in places] or [rest])
        return id(schema)

    def _of_same_value(self, schema: dict[str, Any]) -> Iterable[Any]:
        for name in ("allOf", "anyOf", "oneOf", "dependentSchemas"):
            yield from _listed(schema, name)
        yield from (each for each in _listed(schema, "dependencies") if not isinstance(each, list))
        yield from (schema[name] for name in ("not", "if", "then", "else") if name in schema)
        if "$ref" in schema:
            yield self._referred(schema["$ref"])

    def _referred(self, reference: Any) -> Any:
        """What a pointer into the same document means."""
        if not isinstance(reference, str) or not reference.startswith("#") or "%" in reference:
            raise _Slow
        found = self._root
        for part in reference[1:].split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, dict) and name in found:
                found = found[name]
            else:
                raise _Slow
        if reference != "#" and not reference.startswith("#/"):
            raise _Slow  # an anchor
        return found


def _listed(schema: dict[str, Any], name: str) -> list[Any]:
    found = schema.get(name)
    if isinstance(found, dict):
        return [] if name == "items" else list(found.values())
    return found if isinstance(found, list) else []


def _has_slow_parts(root: Any) -> bool:
    left, count = [root], 0
    while left:
        value = left.pop()
        count += 1
        if count > _MOST_VALUES:
            return True
        if isinstance(value, dict):
            moved = value is not root and any(isinstance(value.get(name), str) for name in ("$id", "id"))
            patterns = [value.get("pattern"), *_names(value.get("patternProperties"))]
            if moved or not _UNCERTAIN.isdisjoint(value) or any(map(_backtracks, patterns)):
                return True
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
    return False


def _names(value: Any) -> Iterable[str]:
    return value if isinstance(value, dict) else ()


def _backtracks(pattern: Any) -> bool:
    return isinstance(pattern, str) and _BACKTRACKING.search(pattern) is not None
