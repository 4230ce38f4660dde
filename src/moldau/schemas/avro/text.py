"""The tree of an Avro schema to its text, as Avro writes it and as ``normalize=true`` wants it.

Pure. The text is the one form that Confluent's registry stores: no white space, attributes in a fixed order,
a named type in full where it is met first and by its name afterwards. Types that references bring in stay
names.
"""

from collections.abc import Mapping
from typing import Any

from moldau.schemas.avro.types import PRIMITIVES, AvroField, AvroSchema, AvroType
from moldau.schemas.limits import compact


def text_of(schema: AvroSchema) -> str:
    """What Confluent's registry stores and returns: the parsed schema as Avro writes it."""
    return compact(_written(schema.root, "", set(schema.borrowed)))


def written(type_: AvroType) -> Any:
    """One type as JSON, complete in itself."""
    return _written(type_, "", set())


def normal_json(schema: AvroSchema) -> Any:
    """The form of ``normalize=true``, to be parsed and written again: aliases and properties in one order, no
    empty doc.
    """
    return _normal(schema.root, set(schema.borrowed))


def _written(type_: AvroType, space: str, seen: set[str]) -> Any:
    if type_.kind == "union":
        return [_written(branch, space, seen) for branch in type_.branches]
    if type_.kind in PRIMITIVES:
        return {"type": type_.kind, **type_.properties} if type_.properties else type_.kind
    if type_.inner is not None:
        attribute = "items" if type_.kind == "array" else "values"
        return {"type": type_.kind, attribute: _written(type_.inner, space, seen), **type_.properties}
    if type_.name in seen:
        plain = type_.namespace == space and type_.short_name not in PRIMITIVES
        return type_.short_name if plain else type_.name
    seen.add(type_.name)
    made: dict[str, Any] = {"type": _kind(type_), "name": type_.short_name}
    if type_.namespace != space:
        made["namespace"] = type_.namespace
    if type_.doc is not None:
        made["doc"] = type_.doc
    if type_.kind == "enum":
        made["symbols"] = list(type_.symbols)
        if type_.symbol_default is not None:
            made["default"] = type_.symbol_default
    elif type_.kind == "fixed":
        made["size"] = type_.size
    else:
        made["fields"] = [_written_field(each, type_.namespace, seen) for each in type_.fields]
    made.update(type_.properties)
    if type_.aliases:
        made["aliases"] = [_relative(alias, type_.namespace) for alias in type_.aliases]
    return made


def _kind(type_: AvroType) -> str:
    return "error" if type_.is_error else type_.kind


def _relative(name: str, space: str) -> str:
    return name.rpartition(".")[2] if name.rpartition(".")[0] == space else name


def _written_field(each: AvroField, space: str, seen: set[str]) -> dict[str, Any]:
    made: dict[str, Any] = {"name": each.name, "type": _written(each.type, space, seen)}
    if each.doc is not None:
        made["doc"] = each.doc
    if each.has_default:
        made["default"] = each.default
    if each.order != "ascending":
        made["order"] = each.order
    if each.aliases:
        made["aliases"] = list(each.aliases)
    made.update(each.properties)
    return made


def _sorted(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _ordered(properties[key]) for key in sorted(properties)}


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return _sorted(value)
    return [_ordered(each) for each in value] if isinstance(value, list) else value


def _normal(type_: AvroType, seen: set[str]) -> Any:
    if type_.kind == "union":
        return [_normal(branch, seen) for branch in type_.branches]
    if type_.kind in PRIMITIVES:
        return {"type": type_.kind, **_sorted(type_.properties)} if type_.properties else type_.kind
    if type_.inner is not None:
        attribute = "items" if type_.kind == "array" else "values"
        return {"type": type_.kind, attribute: _normal(type_.inner, seen), **_sorted(type_.properties)}
    if type_.name in seen:
        return type_.name
    seen.add(type_.name)
    made: dict[str, Any] = {"name": type_.name, "type": _kind(type_)}
    if type_.kind == "enum":
        made["symbols"] = list(type_.symbols)
    elif type_.kind == "fixed":
        made["size"] = type_.size
    else:
        made["fields"] = [_normal_field(each, seen) for each in type_.fields]
    if type_.doc:
        made["doc"] = type_.doc
    if type_.aliases:
        made["aliases"] = sorted(type_.aliases)
    if type_.symbol_default is not None:
        made["default"] = type_.symbol_default
    return {**made, **_sorted(type_.properties)}


def _normal_field(each: AvroField, seen: set[str]) -> dict[str, Any]:
    made: dict[str, Any] = {"name": each.name, "type": _normal(each.type, seen), "order": each.order.upper()}
    if each.doc is not None:
        made["doc"] = each.doc
    if each.aliases:
        made["aliases"] = sorted(each.aliases)
    if each.has_default:
        made["default"] = each.default
    return {**made, **_sorted(each.properties)}
