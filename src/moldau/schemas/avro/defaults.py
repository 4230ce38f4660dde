"""Defaults of fields: which JSON value may be one, and the value that it stands for. Pure."""

import math
import re
from collections.abc import Callable
from typing import Any

from moldau.schemas.avro.types import AvroType

_FLOATS = frozenset({"float", "double"})
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
#: Numbers that JSON has no way to write.
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_INTEGERS = {"int": 2**31, "long": 2**63}


def allowed(type_: AvroType, value: Any) -> bool:
    """Whether Avro's parser takes a JSON value as the default of a field of this type; in a union any branch
    may take it (Avro 1.12). It asks of enums, fixed and bytes only that the default is text.
    """
    return _is_not_finite(type_, value) or _accepts(type_, value, _is_text_or_plain)


def fits(type_: AvroType, value: Any) -> bool:
    """Whether a JSON value stands for a value of this type: a symbol that the enum has, as many bytes as a
    fixed has.
    """
    return _is_not_finite(type_, value) or _accepts(type_, value, _fits_text)


def number_of_text(type_: AvroType, default: Any) -> Any:
    """A number in quotes is a number, as Avro's parser takes it; what JSON cannot write stays text."""
    if type_.kind not in _FLOATS or not isinstance(default, str) or not _NUMBER.fullmatch(default):
        return default
    number = float(default)
    return number if math.isfinite(number) else default


def _is_not_finite(type_: AvroType, value: Any) -> bool:
    return type_.kind in _FLOATS and value in _NOT_FINITE


def _accepts(type_: AvroType, value: Any, text: Callable[[AvroType, Any], bool]) -> bool:
    kind = type_.kind
    if kind in _INTEGERS:
        bound = _INTEGERS[kind]
        return isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound
    if kind in _FLOATS:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "union":
        return any(_accepts(branch, value, text) for branch in type_.branches)
    if kind == "array":
        return isinstance(value, list) and all(_accepts(type_.item, each, text) for each in value)
    if kind == "map":
        return isinstance(value, dict) and all(_accepts(type_.item, each, text) for each in value.values())
    if kind == "record":
        # A field that is left out takes its own default, which is checked where it is declared.
        return isinstance(value, dict) and all(
            _accepts(each.type, value[each.name], text) if each.name in value else each.has_default
            for each in type_.fields
        )
    return text(type_, value)


def _is_text_or_plain(type_: AvroType, value: Any) -> bool:
    if type_.kind in ("enum", "fixed", "bytes"):
        return isinstance(value, str)
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
