"""Whether a value fits an Avro schema, and if not, where and why.

Pure, and slow beside the compiled encoders: it runs after one of them has failed, and where a union has
several branches that could be meant. Invariant: it accepts what the encoders accept.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from moldau.schemas.avro.defaults import default_value
from moldau.schemas.avro.types import AvroType
from moldau.serde.compiled_avro.numbers import Misfit, as_boolean, as_float, as_integer, pack_float
from moldau.serde.errors import shown

#: The path, and what is wrong there.
Problem = tuple[list[str | int], str]
_RANGES = {"int": (-0x80000000, 0x7FFFFFFF), "long": (-0x8000000000000000, 0x7FFFFFFFFFFFFFFF)}


def problem(schema: AvroType, value: Any) -> Problem | None:
    """The first thing that does not fit; None where all does."""
    if schema.logical is not None:
        try:
            value = schema.logical.writer(schema.properties, schema.size)(value)
        except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
            return [], f"{shown(value)} cannot be written as {schema.logical.name}: {error}"
    match schema.kind:
        case "record":
            return _in_record(schema, value)
        case "array":
            return _in_array(schema, value)
        case "map":
            return _in_map(schema, value)
        case "union":
            return _in_union(schema, value)
        case _:
            wrong = _wrong(schema, value)
            return None if wrong is None else ([], wrong)


def chosen_branch(union: AvroType, value: Any) -> tuple[int, Any]:
    """Which branch of a union a value is meant for, and the value without what it said about that.

    ``(name, value)`` and a record with the key ``-type`` say it themselves. Otherwise it is the first branch
    that fits; among records the one that has the most fields of the value.
    """
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        return _named_branch(union, value[0]), value[1]
    if isinstance(value, Mapping) and isinstance(value.get("-type"), str):
        index = _named_branch(union, value["-type"])
        return index, {name: each for name, each in value.items() if name != "-type"}
    fitting = [index for index, branch in enumerate(union.branches) if problem(branch, value) is None]
    if not fitting:
        raise Misfit
    if isinstance(value, Mapping) and len(fitting) > 1:
        return max(fitting, key=lambda index: _shared(union.branches[index], value)), value
    return fitting[0], value


def _named_branch(union: AvroType, name: str) -> int:
    names = [branch.called for branch in union.branches]
    for index, each in enumerate(names):
        if each == name:
            return index
    short = [index for index, each in enumerate(names) if each.rpartition(".")[2] == name]
    if len(short) != 1:
        raise Misfit(f"the union has no branch {name!r}; it has {', '.join(names)}")
    return short[0]


def _shared(schema: AvroType, value: Mapping[str, Any]) -> int:
    return sum(field.name in value for field in schema.fields) if schema.kind == "record" else -1


def _in_record(schema: AvroType, value: Any) -> Problem | None:
    if not isinstance(value, Mapping):
        return [], f"{shown(value)} is no record {schema.name}: pass a dict"
    for field in schema.fields:
        name = field.name
        if name not in value and not field.has_default:
            return [name], f"the field has no value and no default in {schema.name}"
        inside = value[name] if name in value else default_value(field.type, field.default)
        if (found := problem(field.type, inside)) is not None:
            return [name, *found[0]], found[1]
    return None


def _in_array(schema: AvroType, value: Any) -> Problem | None:
    if isinstance(value, str | bytes | bytearray | Mapping) or not hasattr(value, "__len__"):
        return [], f"{shown(value)} is no array: pass a list"
    return _first(schema.item, enumerate(value))


def _in_map(schema: AvroType, value: Any) -> Problem | None:
    if not isinstance(value, Mapping):
        return [], f"{shown(value)} is no map: pass a dict"
    for key in value:
        if not isinstance(key, str):
            return [], f"the key {shown(key)} of the map is no string"
    return _first(schema.item, iter(value.items()))


def _first(schema: AvroType, items: Iterator[tuple[Any, Any]]) -> Problem | None:
    for step, each in items:
        if (found := problem(schema, each)) is not None:
            return [step, *found[0]], found[1]
    return None


def _in_union(schema: AvroType, value: Any) -> Problem | None:
    try:
        index, inside = chosen_branch(schema, value)
    except Misfit as error:
        if error.args:
            return [], str(error)
        return _nearest(schema, value)
    return problem(schema.branches[index], inside)


def _nearest(schema: AvroType, value: Any) -> Problem:
    """With one branch beside null, what is wrong with that one says more than that none fits."""
    others = [branch for branch in schema.branches if branch.kind != "null"]
    if value is not None and len(others) == 1 and (found := problem(others[0], value)) is not None:
        return found
    return [], f"{shown(value)} fits none of {', '.join(branch.called for branch in schema.branches)}"


def _wrong(schema: AvroType, value: Any) -> str | None:
    """What is wrong with a value that has no parts."""
    type_name = schema.kind
    said = f"{shown(value)} is no {type_name}"
    match type_name:
        case "null":
            return None if value is None else said
        case "boolean":
            return _refused(as_boolean, value, said)
        case "int" | "long":
            return _refused(as_integer, value, said) or _outside(type_name, int(value))
        case "float":
            refused = _refused(as_float, value, said)
            return refused or _refused(
                lambda each: pack_float(float(each)), value, f"{said}: it is too large"
            )
        case "double":
            return _refused(as_float, value, said)
        case "string":
            return said if not isinstance(value, str) else _refused(str.encode, value, f"{said} in UTF-8")
        case "bytes":
            return None if isinstance(value, bytes | bytearray | memoryview) else said
        case "enum":
            symbols = list(schema.symbols)
            return None if isinstance(value, str) and value in symbols else f"{said}: one of {symbols}"
    if not isinstance(value, bytes | bytearray):
        return said
    size = schema.size
    return None if len(value) == size else f"{len(value)} bytes are given where {schema.name} has {size}"


def _refused(step: Any, value: Any, said: str) -> str | None:
    try:
        step(value)
    except (Misfit, TypeError, ValueError, OverflowError):
        return said
    return None


def _outside(type_name: str, number: int) -> str | None:
    low, high = _RANGES[type_name]
    return None if low <= number <= high else f"{number} is out of the range of {type_name}, {low} to {high}"
