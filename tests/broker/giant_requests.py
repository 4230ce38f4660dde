"""Requests with one very long array each, made from the declarations: every array of every API has its turn.

Invariant: a giant is well formed. Its elements differ from each other where their type lets them, so that
nothing is saved by folding what is repeated; ``repeated`` makes them all the same.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from moldau.protocol import messages
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Field, declaration

#: Numbers that are counts or times get a harmless value.
_FIXED = {"num_partitions": 1, "count": 1, "replication_factor": 1, "timeout_ms": 1000, "max_wait_ms": 0}
_TOPIC = "known"


class Giant(NamedTuple):
    array: str
    message: Any


def giants(api_key: ApiKey, version: int, elements: int, *, repeated: bool = False) -> Iterator[Giant]:
    """One request for every array that the request of an API has in a version."""
    cls = messages.load(api_key)[0]
    for path in _arrays(cls, version):
        yield Giant(".".join(path), _make(cls, version, path, elements, repeated))


def _fields(cls: type, version: int) -> list[Field]:
    return [field for field in declaration(cls).fields if version in field.present]


def _arrays(cls: type, version: int) -> Iterator[tuple[str, ...]]:
    for field in _fields(cls, version):
        nested = not isinstance(field.kind, str)
        if field.is_array:
            yield (field.name,)
        if nested:
            yield from ((field.name, *path) for path in _arrays(field.kind, version))


def _make(
    cls: type, version: int, path: tuple[str, ...], elements: int, repeated: bool, number: int = 0
) -> Any:
    values = {}
    for field in _fields(cls, version):
        here = path[1:] if path[:1] == (field.name,) else ()
        long = path == (field.name,)
        if field.is_array:
            count = elements if long else 1
            values[field.name] = [
                _value(field, version, here, elements, repeated, 0 if repeated else index)
                for index in range(count)
            ]
        elif version in field.nullable and not here and field.kind != "records":
            values[field.name] = (
                None if not isinstance(field.kind, str) or field.kind != "string" else _name(number)
            )
        else:
            values[field.name] = _value(field, version, here, elements, repeated, number)
    return cls(**values)


def _value(
    field: Field, version: int, path: tuple[str, ...], elements: int, repeated: bool, number: int
) -> Any:
    kind = field.kind
    if not isinstance(kind, str):
        return _make(kind, version, path, elements, repeated, number)
    if field.name in _FIXED:
        return _FIXED[field.name]
    if kind == "string":
        return _name(number)
    if kind == "uuid":
        return number.to_bytes(16, "big")
    if kind in ("bytes", "records"):
        return b""
    if kind == "bool":
        return False
    if kind in ("int8", "int16"):
        return number % 3
    return float(number) if kind == "float64" else number


def _name(number: int) -> str:
    return _TOPIC if number == 0 else f"n{number}"
