"""The types of JSON values that were seen, as Spark's DDL: what ``value.schema=infer`` means.

    infer([b'{"id": 1}', b'{"id": 2.5, "tags": ["a"]}'])      # "id DOUBLE, tags ARRAY<STRING>"

Pure. The order of the values does not matter: fields are sorted by name. Whole numbers are BIGINT, and DOUBLE
where some are not whole; what is of several kinds, or always null, is STRING, which holds the JSON of
anything. Texts stay texts, also those that look like dates.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from moldau.spark.typed.shapes import SchemaError

_BIGINTS = range(-(2**63), 2**63)
#: Deeper values are text; Spark and Arrow nest as deep, and no deeper.
_MAX_DEPTH = 40
#: Objects with more names than these are no records.
_MAX_FIELDS = 2_000
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(slots=True)
class _Seen:
    """Everything that was seen in one place."""

    kinds: set[str] = field(default_factory=set)
    fields: "dict[str, _Seen]" = field(default_factory=dict)
    items: "_Seen | None" = None


def infer(values: Iterable[bytes]) -> str:
    """What fits all values that are JSON; SchemaError where there is none, or nothing that is a type."""
    seen = _Seen()
    for value in values:
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            continue  # what is no JSON has no part in the types; reading it is an error of its own
        _see(seen, found, 0)
    if not seen.kinds - {"null"}:
        raise SchemaError("none of the records that were looked at is JSON")
    if seen.kinds - {"null"} == {"object"} and seen.fields:
        return _fields(seen, " ")
    return _type(seen)


def _see(seen: _Seen, value: object, depth: int) -> None:
    match value:
        case None:
            seen.kinds.add("null")
        case bool():
            seen.kinds.add("BOOLEAN")
        case int():
            seen.kinds.add("BIGINT" if value in _BIGINTS else "STRING")
        case float():
            seen.kinds.add("DOUBLE")
        case str():
            seen.kinds.add("STRING")
        case dict() if depth < _MAX_DEPTH:
            seen.kinds.add("object")
            for name, each in value.items():
                _see(seen.fields.setdefault(name, _Seen()), each, depth + 1)
            if len(seen.fields) > _MAX_FIELDS:
                raise SchemaError(
                    f"objects have more than {_MAX_FIELDS} different names: say what they are with a schema"
                )
        case list() if depth < _MAX_DEPTH:
            seen.kinds.add("array")
            seen.items = seen.items or _Seen()
            for each in value:
                _see(seen.items, each, depth + 1)
        case _:
            seen.kinds.add("STRING")


def _type(seen: _Seen) -> str:
    kinds = seen.kinds - {"null"}
    if kinds == {"BIGINT", "DOUBLE"}:
        return "DOUBLE"
    if kinds == {"object"}:
        return f"STRUCT<{_fields(seen, ': ')}>" if seen.fields else "MAP<STRING, STRING>"
    if kinds == {"array"}:
        assert seen.items is not None
        return f"ARRAY<{_type(seen.items)}>"
    return kinds.pop() if len(kinds) == 1 else "STRING"


def _fields(seen: _Seen, between: str) -> str:
    return ", ".join(f"{_quoted(name)}{between}{_type(seen.fields[name])}" for name in sorted(seen.fields))


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name.replace('`', '``')}`"
