"""JSON from strangers: read as JSON and nothing else, and never deeper than a limit.

Pure. Python's own reader takes NaN, lets the last of two equal names win, and nests as deep as memory goes;
each of these reads differently elsewhere, so each is refused. What is refused is a ``ValueError``.
"""

import json
import re
from typing import Any, NoReturn

#: Deeper than any body of a service, and far from where recursion becomes a risk.
MAX_DEPTH = 64


def read_json(data: bytes | str, max_depth: int = MAX_DEPTH) -> Any:
    """The value of a JSON text. ValueError says what is wrong with it."""
    text = _text(data)
    found = parse(text, max_depth)
    # A name that comes twice leaves fewer pairs than the text has. Colons are quick to count, and are as many
    # as the pairs unless texts have some too; only then the names are looked for.
    pairs = _count_pairs(found, max_depth)
    if text.count(":") != pairs and sum(map(bool, _NAME.findall(text))) != pairs:
        raise ValueError("an object has the same name twice")
    return found


def parse(text: str, max_depth: int = MAX_DEPTH) -> Any:
    """The same without looking for names that come twice, and as deep as Python can."""
    try:
        return _decode(text)
    except RecursionError:
        raise _too_deep(max_depth) from None


def _count_pairs(value: Any, max_depth: int) -> int:
    """Names of all objects in a value; ValueError where it is nested more deeply."""
    level: list[Any] = [value] if value.__class__ in _CONTAINERS else []
    pairs = 0
    for _ in range(max_depth):
        if not level:
            return pairs
        objects = [each for each in level if each.__class__ is dict]
        pairs += sum(map(len, objects))
        inside = [value for each in objects for value in each.values() if value.__class__ in _CONTAINERS]
        if len(objects) < len(level):
            lists = [each for each in level if each.__class__ is list]
            inside += [value for each in lists for value in each if value.__class__ in _CONTAINERS]
        level = inside
    if level:
        raise _too_deep(max_depth)
    return pairs


_CONTAINERS = frozenset({dict, list})
#: Texts; those that are names have their colon in the group.
_NAME = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?', re.DOTALL)


def _text(data: bytes | str) -> str:
    if isinstance(data, str):
        return data
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8: {error.reason} at byte {error.start}") from None


def _too_deep(max_depth: int) -> ValueError:
    return ValueError(f"it is nested more than {max_depth} deep")


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_decode = json.JSONDecoder(parse_constant=_constant).decode
