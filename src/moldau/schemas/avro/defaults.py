"""Defaults of fields: which JSON value may be one, and the value that it stands for. Pure."""

from typing import Any

from moldau.schemas.avro.types import AvroType

_INTEGERS = {"int": 2**31, "long": 2**63}


def fits(type_: AvroType, value: Any) -> bool:
    """Whether a JSON value may be the default of a field of this type; in a union any branch may take it
    (Avro 1.12).
    """
    kind = type_.kind
    if kind in _INTEGERS:
        bound = _INTEGERS[kind]
        return isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound
    if kind in ("float", "double"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "union":
        return any(fits(branch, value) for branch in type_.branches)
    if kind == "array":
        return isinstance(value, list) and all(fits(type_.item, each) for each in value)
    if kind == "map":
        return isinstance(value, dict) and all(fits(type_.item, each) for each in value.values())
    if kind == "record":
        # A field that is left out takes its own default, which is checked where it is declared.
        return isinstance(value, dict) and all(
            fits(each.type, value[each.name]) if each.name in value else each.has_default
            for each in type_.fields
        )
    return _fits_text(type_, value)


def _fits_text(type_: AvroType, value: Any) -> bool:
    match type_.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "enum":
            return isinstance(value, str) and value in type_.symbols
        case "string":
            return isinstance(value, str)
        case "fixed":
            return (
                isinstance(value, str) and len(value) == type_.size and all(ord(each) < 256 for each in value)
            )
        case _:
            return isinstance(value, str) and all(ord(each) < 256 for each in value)


def default_value(type_: AvroType, default: Any) -> Any:
    """The value of a default, without its logical type; ValueError where it does not fit."""
    if not fits(type_, default):
        raise ValueError(f"the default {default!r} does not fit its type {type_.called}")
    return _value(type_, default)


def _value(type_: AvroType, default: Any) -> Any:
    match type_.kind:
        case "union":
            return _value(next(branch for branch in type_.branches if fits(branch, default)), default)
        case "bytes" | "fixed":
            return default.encode("latin-1")
        case "float" | "double":
            return float(default)
        case "array":
            return [_value(type_.item, each) for each in default]
        case "map":
            return {key: _value(type_.item, each) for key, each in default.items()}
        case "record":
            return {
                each.name: default_value(each.type, default.get(each.name, each.default))
                for each in type_.fields
            }
    return default
