"""The limits of every schema, and the one error that says what is wrong with one.

Pure. A registry takes schemas from anyone: their size, depth and count of parts are checked here before any
recursive code sees them. Invariant: no pattern of a schema is run.
"""

import json
import math
from typing import Any, NoReturn

#: Longer texts are refused: the record in `_schemas` has to fit into a Kafka message as well.
MAX_SCHEMA_CHARACTERS = 1_000_000
#: JSON levels of one schema. Recursive code spends a few frames on each, far below the interpreter's own
#: limit.
MAX_DEPTH = 100
#: JSON values of one schema.
MAX_VALUES = 200_000
#: A reference may bring references of its own; this many documents at most take part in one schema.
MAX_REFERENCES = 1_000


class InvalidSchema(Exception):
    """The schema cannot be taken; the message is meant for the client that sent it."""


class NotInTime(InvalidSchema):
    """Looking at the schema was given up; it may be in order."""


def check_size(text: str) -> str:
    """The text without the white space around it, when it may be looked at at all."""
    if len(text) > MAX_SCHEMA_CHARACTERS:
        raise InvalidSchema(f"The schema has {len(text)} characters, more than {MAX_SCHEMA_CHARACTERS}")
    trimmed = text.strip()
    if not trimmed:
        raise InvalidSchema("Empty schema")
    try:
        trimmed.encode()
    except UnicodeEncodeError:
        raise InvalidSchema("The schema holds half of a surrogate pair") from None
    return trimmed


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise InvalidSchema(f"The number {text[:40]} is out of range")
    return value


def _no_constant(name: str) -> NoReturn:
    raise InvalidSchema(f"{name} is not JSON")


def load_json(text: str, max_depth: int = MAX_DEPTH) -> Any:
    """Parse a schema that is written in JSON, within the limits above."""
    trimmed = check_size(text)
    try:
        value = json.loads(trimmed, parse_float=_finite, parse_constant=_no_constant)
    except RecursionError:
        raise InvalidSchema(f"The schema is nested deeper than {max_depth} levels") from None
    except ValueError as error:
        raise InvalidSchema(f"The schema is not JSON: {error}") from None
    _check_shape(value, max_depth)
    return value


def _check_shape(root: Any, max_depth: int) -> None:
    level = [root]
    depth = values = 0
    while level:
        depth += 1
        values += len(level)
        if depth > max_depth:
            raise InvalidSchema(f"The schema is nested deeper than {max_depth} levels")
        if values > MAX_VALUES:
            raise InvalidSchema(f"The schema has more than {MAX_VALUES} values")
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below.extend(value.values())
                _check_text("".join(value))
            elif isinstance(value, list):
                below.extend(value)
            elif isinstance(value, str):
                _check_text(value)
        level = below


def _check_text(text: str) -> None:
    # An escape such as \ud800 is legal JSON, yet it cannot be written as UTF-8 again.
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidSchema("The schema holds half of a surrogate pair") from None


def compact(value: Any, *, sort_keys: bool = False) -> str:
    """JSON without white space, as Confluent's registry stores it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)
