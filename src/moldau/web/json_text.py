"""JSON from strangers: read as JSON and nothing else, and never deeper than a limit.

Pure. Python's own reader takes NaN, lets the last of two equal names win, and nests as deep as memory goes;
each of these reads differently elsewhere, so each is refused. What is refused is a ``ValueError``.
"""

import json
from typing import Any, NoReturn

#: Deeper than any body of a service, and far from where recursion becomes a risk.
MAX_DEPTH = 64


def read_json(data: bytes | str, max_depth: int = MAX_DEPTH) -> Any:
    """The value of a JSON text. ValueError says what is wrong with it."""
    try:
        found = _DECODER.decode(_text(data))
    except RecursionError:
        raise _too_deep(max_depth) from None
    check_depth(found, max_depth)
    return found


def read_json_at(text: str, position: int, max_depth: int = MAX_DEPTH) -> tuple[Any, int]:
    """The value that begins at a position, and where it ends; for texts one behind another."""
    try:
        found, end = _DECODER.raw_decode(text, position)
    except RecursionError:
        raise _too_deep(max_depth) from None
    check_depth(found, max_depth)
    return found, end


def check_depth(value: Any, max_depth: int = MAX_DEPTH) -> None:
    """ValueError where a value is nested more deeply."""
    level = [value]
    for _ in range(max_depth):
        level = [
            each
            for container in level
            if container.__class__ in _CONTAINERS
            for each in (container.values() if container.__class__ is dict else container)
            if each.__class__ in _CONTAINERS
        ]
        if not level:
            return
    raise _too_deep(max_depth)


_CONTAINERS = frozenset({dict, list})


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


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has the same name twice")
    return found


_DECODER = json.JSONDecoder(parse_constant=_constant, object_pairs_hook=_object)
