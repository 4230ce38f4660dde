"""Avro schemas as values: parsed and checked as Avro's own Java parser does, written back as it writes
them.

The text of a parsed schema is the one form that Confluent's registry stores: no white space, attributes in
a fixed order, a named type spelled out where it is met first and by its name afterwards. Types that
references bring in stay names. Everything is checked by hand because libraries disagree on what is valid:
names, duplicates, unions, sizes, defaults.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.schemas.limits import InvalidSchema, compact, load_json

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})
_RESERVED = frozenset(
    {"doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"}
)
_FIELD_RESERVED = frozenset({"default", "doc", "name", "order", "type", "aliases"})
_ORDERS = frozenset({"ascending", "descending", "ignore"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_MAX_FIXED_SIZE = 2**31 - 1


@dataclass(slots=True, eq=False)
class AvroField:
    """A field of a record; `default` means something only when `has_default` says so (null is a default
    too).
    """

    name: str
    type: "AvroType"
    has_default: bool = False
    default: Any = None
    order: str = "ascending"
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class AvroType:
    """One type. Records may contain themselves, so types are compared by identity and `fields` is filled in
    last.
    """

    kind: str
    name: str = ""
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    fields: tuple[AvroField, ...] = ()
    #: in their order, as keys: a schema may have many
    symbols: dict[str, None] = field(default_factory=dict)
    symbol_default: str | None = None
    size: int = 0
    inner: "AvroType | None" = None
    branches: tuple["AvroType", ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def namespace(self) -> str:
        return self.name.rpartition(".")[0]


@dataclass(frozen=True, slots=True, eq=False)
class AvroSchema:
    """A parsed schema and every named type that it can see; `borrowed` came in by references."""

    root: AvroType
    names: Mapping[str, AvroType]
    borrowed: frozenset[str]


def parse_avro(text: str, references: Mapping[str, AvroType]) -> AvroSchema:
    """Parse and check; `references` are the named types of referenced schemas by their full names."""
    reader = _Reader(dict(references))
    root = reader.read(load_json(text), "")
    for owner, each in reader.defaults:
        if not fits(each.type, each.default):
            raise InvalidSchema(
                f"Invalid default for field {owner}.{each.name}: {compact(each.default)[:200]} "
                f"not a {compact(_written(each.type, '', set()))[:200]}"
            )
    return AvroSchema(root, reader.names, frozenset(references))


class _Reader:
    """The parser's memory: the names met so far, and defaults that can be judged only when all types are
    complete.
    """

    def __init__(self, names: dict[str, AvroType]) -> None:
        self.names = names
        self.defaults: list[tuple[str, AvroField]] = []

    def read(self, value: Any, space: str) -> AvroType:
        if isinstance(value, str):
            return self._by_name(value, space)
        if isinstance(value, list):
            return self._union(value, space)
        if not isinstance(value, dict):
            raise InvalidSchema(f"Schema not yet supported: {compact(value)[:200]}")
        kind = value.get("type")
        if isinstance(kind, dict | list):
            return self.read(kind, space)
        if not isinstance(kind, str):
            raise InvalidSchema(f"No type: {compact(value)[:200]}")
        others = {key: each for key, each in value.items() if key not in _RESERVED}
        if kind in PRIMITIVES:
            return AvroType(kind, properties=others)
        if kind in NAMED:
            return self._named(kind, value, others, space)
        if kind in ("array", "map"):
            attribute = "items" if kind == "array" else "values"
            if attribute not in value:
                raise InvalidSchema(f"No {attribute} type in {kind}: {compact(value)[:200]}")
            return AvroType(kind, inner=self.read(value[attribute], space), properties=others)
        return self._by_name(kind, space)

    def _by_name(self, name: str, space: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        for full in (name,) if "." in name else (f"{space}.{name}" if space else name, name):
            if full in self.names:
                return self.names[full]
        raise InvalidSchema(
            f'"{name}" is not a defined name. Type names must be defined before they are used.'
        )

    def _union(self, values: list[Any], space: str) -> AvroType:
        branches = tuple(self.read(value, space) for value in values)
        seen: set[str] = set()
        for branch in branches:
            if branch.kind == "union":
                raise InvalidSchema("Nested union: a union may not immediately contain other unions")
            key = branch.name or branch.kind
            if key in seen:
                raise InvalidSchema(f"Duplicate in union: {key}")
            seen.add(key)
        return AvroType("union", branches=branches)

    def _named(self, kind: str, value: dict[str, Any], others: dict[str, Any], space: str) -> AvroType:
        full = _full_name(value, space)
        if full in self.names:
            raise InvalidSchema(f"Can't redefine: {full}")
        doc = value.get("doc")
        made = AvroType(kind, full, doc if isinstance(doc, str) else None, properties=others)
        made.aliases = tuple(
            alias if "." in alias or not made.namespace else f"{made.namespace}.{alias}"
            for alias in _aliases(value)
        )
        if kind == "enum":
            self._enum(made, value)
        elif kind == "fixed":
            size = value.get("size")
            if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _MAX_FIXED_SIZE:
                raise InvalidSchema(f"Invalid or no size: {full}")
            made.size = size
        self.names[full] = made
        if kind in ("record", "error"):
            self._fields(made, value)
        return made

    def _enum(self, made: AvroType, value: dict[str, Any]) -> None:
        symbols = value.get("symbols")
        if not isinstance(symbols, list):
            raise InvalidSchema(f"Enum has no symbols: {made.name}")
        for symbol in symbols:
            _check_name(symbol, f"symbol of {made.name}")
        if len(set(symbols)) != len(symbols):
            raise InvalidSchema(f"Duplicate enum symbol in {made.name}")
        default = value.get("default")
        if default is not None and default not in symbols:
            raise InvalidSchema(f"The enum default {compact(default)[:100]} is not a symbol of {made.name}")
        made.symbols, made.symbol_default = dict.fromkeys(symbols), default
        made.properties = {key: each for key, each in made.properties.items() if key != "default"}

    def _fields(self, made: AvroType, value: dict[str, Any]) -> None:
        declared = value.get("fields")
        if not isinstance(declared, list):
            raise InvalidSchema(f"Record has no fields: {made.name}")
        fields: list[AvroField] = []
        seen: set[str] = set()
        for each in declared:
            read = self._field(made, each)
            if read.name in seen:
                raise InvalidSchema(f"Duplicate field {read.name} in record {made.name}")
            seen.add(read.name)
            fields.append(read)
            if read.has_default:
                self.defaults.append((made.name, read))
        made.fields = tuple(fields)

    def _field(self, made: AvroType, value: Any) -> AvroField:
        if not isinstance(value, dict):
            raise InvalidSchema(f"A field of {made.name} is not an object")
        name = _check_name(value.get("name"), f"field of {made.name}")
        if "type" not in value:
            raise InvalidSchema(f"No field type: {made.name}.{name}")
        order = value.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            raise InvalidSchema(f"Invalid order {compact(order)[:100]} of field {made.name}.{name}")
        doc = value.get("doc")
        return AvroField(
            name=name,
            type=self.read(value["type"], made.namespace),
            has_default="default" in value,
            default=value.get("default"),
            order=order.lower(),
            doc=doc if isinstance(doc, str) else None,
            aliases=_aliases(value),
            properties={key: each for key, each in value.items() if key not in _FIELD_RESERVED},
        )


def _check_name(name: Any, what: str) -> str:
    if not isinstance(name, str) or not _NAME.match(name):
        raise InvalidSchema(f"Illegal name of a {what}: {compact(name)[:100]}")
    return name


def _full_name(value: dict[str, Any], space: str) -> str:
    name = value.get("name")
    if not isinstance(name, str):
        raise InvalidSchema(f"No name in schema: {compact(value)[:200]}")
    namespace = value.get("namespace", space)
    if "." in name:
        namespace, _, name = name.rpartition(".")
    if not isinstance(namespace, str):
        raise InvalidSchema(f"The namespace of {name} is not a string")
    for part in (*(namespace.split(".") if namespace else ()), name):
        _check_name(part, "type")
    if name in PRIMITIVES and not namespace:
        raise InvalidSchema(f"Schemas may not be named after primitives: {name}")
    return f"{namespace}.{name}" if namespace else name


def _aliases(value: dict[str, Any]) -> tuple[str, ...]:
    aliases = value.get("aliases")
    if aliases is None:
        return ()
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise InvalidSchema("aliases is not an array of strings")
    return tuple(dict.fromkeys(aliases))


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
        assert type_.inner is not None
        inner = type_.inner
        return isinstance(value, list) and all(fits(inner, each) for each in value)
    if kind == "map":
        assert type_.inner is not None
        inner = type_.inner
        return isinstance(value, dict) and all(fits(inner, each) for each in value.values())
    if kind in ("record", "error"):
        # A field that is left out takes its own default, which is judged where it is declared.
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


def text_of(schema: AvroSchema) -> str:
    """What Confluent's registry stores and returns: the parsed schema as Avro writes it."""
    return compact(_written(schema.root, "", set(schema.borrowed)))


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
    made: dict[str, Any] = {"type": type_.kind, "name": type_.short_name}
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


def normal_text_of(schema: AvroSchema) -> str:
    """The form of `normalize=true`: aliases and properties in one order, no empty doc; written as Avro
    writes it.
    """
    borrowed = {name: schema.names[name] for name in schema.borrowed}
    return text_of(parse_avro(compact(_normal(schema.root, set(borrowed))), borrowed))


def _sorted(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {key: properties[key] for key in sorted(properties)}


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
    made: dict[str, Any] = {"name": type_.name, "type": type_.kind}
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
