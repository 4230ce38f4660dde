"""The text of an Avro schema to its tree, checked as Avro's own Java parser checks it.

Pure. Everything is checked by hand, because libraries disagree on what is valid: names, duplicates, unions,
sizes, defaults. Whatever is wrong is an ``InvalidSchema`` in the words of Avro's parser. Names and defaults
that are not valid do not keep anyone from reading data, so they are complaints only where a schema is read
leniently: schemas that are stored somewhere already have to stay readable.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from moldau.schemas.avro.defaults import allowed, number_of_text
from moldau.schemas.avro.logical import logical_type
from moldau.schemas.avro.text import normal_json, text_of, written
from moldau.schemas.avro.types import PRIMITIVES, AvroField, AvroSchema, AvroType
from moldau.schemas.limits import MAX_DEPTH, InvalidSchema, compact, load_json

_NAMED = frozenset({"record", "error", "enum", "fixed"})
_RESERVED = frozenset(
    {"doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"}
)
_FIELD_RESERVED = frozenset({"default", "doc", "name", "order", "type", "aliases"})
_ORDERS = frozenset({"ascending", "descending", "ignore"})
_MAX_FIXED_SIZE = 2**31 - 1


#: JSON levels of a schema that a program itself reads or writes with; it may be deeper than a client's.
_MAX_OWN_DEPTH = 300


def parse_avro(
    text: str,
    references: Mapping[str, AvroType] | None = None,
    *,
    lenient: bool = False,
    max_depth: int = MAX_DEPTH,
) -> AvroSchema:
    """``references`` are the named types of referenced schemas by their full names.

    Where it is read leniently, the schema carries what is wrong with its names and defaults.
    """
    reader = _Reader(dict(references or {}))
    try:
        root = reader.read(load_json(text, max_depth), "")
        reader.check_defaults()
    except RecursionError:
        raise InvalidSchema("The schema is nested too deeply") from None
    if reader.complaint is not None and not lenient:
        raise InvalidSchema(reader.complaint)
    return AvroSchema(root, reader.names, frozenset(references or ()), text, reader.complaint)


def parse_with_texts(text: str, references: Sequence[str] = (), *, lenient: bool = False) -> AvroSchema:
    """A schema to read or write data with; ``references`` are the texts that it names, those that others name
    first.
    """
    names: Mapping[str, AvroType] = {}
    for each in dict.fromkeys(references):  # one text may define several of the names that are used
        names = parse_avro(each, names, lenient=lenient, max_depth=_MAX_OWN_DEPTH).names
    return parse_avro(text, names, lenient=lenient, max_depth=_MAX_OWN_DEPTH)


def normal_text_of(schema: AvroSchema) -> str:
    """The form of ``normalize=true``, written as Avro writes it."""
    borrowed = {name: schema.names[name] for name in schema.borrowed}
    return text_of(parse_avro(compact(normal_json(schema)), borrowed, lenient=True))


class _Reader:
    """The names so far, and the defaults, which can be checked only when all types are complete."""

    def __init__(self, names: dict[str, AvroType]) -> None:
        self.names = names
        #: The first thing that is wrong and can be lived with.
        self.complaint: str | None = None
        self._defaults: list[tuple[str, AvroField]] = []

    def _complain(self, what: str) -> None:
        self.complaint = self.complaint or what

    def check_defaults(self) -> None:
        for owner, each in self._defaults:
            if not allowed(each.type, each.default):
                self._complain(
                    f"Invalid default for field {owner}.{each.name}: {compact(each.default)[:200]} "
                    f"not a {compact(written(each.type))[:200]}"
                )

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
            return AvroType(kind, properties=others, logical=logical_type(kind, others))
        if kind in _NAMED:
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
            if branch.called in seen:
                raise InvalidSchema(f"Duplicate in union: {branch.called}")
            seen.add(branch.called)
        return AvroType("union", branches=branches)

    def _named(self, kind: str, value: dict[str, Any], others: dict[str, Any], space: str) -> AvroType:
        full = self._full_name(value, space)
        if full in self.names:
            raise InvalidSchema(f"Can't redefine: {full}")
        doc = value.get("doc")
        made = AvroType(kind, full, doc if isinstance(doc, str) else None, properties=others)
        if kind == "error":
            made.kind, made.is_error = "record", True
        made.aliases = tuple(
            alias if "." in alias or not made.namespace else f"{made.namespace}.{alias}"
            for alias in _aliases(value)
        )
        for alias in made.aliases:
            self._check_name(alias.rpartition(".")[2], f"alias of {full}")
        if kind == "enum":
            self._enum(made, value)
        elif kind == "fixed":
            size = value.get("size")
            if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _MAX_FIXED_SIZE:
                raise InvalidSchema(f"Invalid or no size: {full}")
            made.size, made.logical = size, logical_type(kind, others)
        self.names[full] = made
        if made.kind == "record":
            self._fields(made, value)
        return made

    def _enum(self, made: AvroType, value: dict[str, Any]) -> None:
        symbols = value.get("symbols")
        if not isinstance(symbols, list):
            raise InvalidSchema(f"Enum has no symbols: {made.name}")
        for symbol in symbols:
            self._check_name(symbol, f"symbol of {made.name}")
        if len(set(symbols)) != len(symbols):
            raise InvalidSchema(f"Duplicate enum symbol in {made.name}")
        default = value.get("default")
        if default is not None and default not in symbols:
            self._complain(f"The enum default {compact(default)[:100]} is not a symbol of {made.name}")
            default = None  # it stays a property, so that the text keeps it
        else:
            made.properties = {key: each for key, each in made.properties.items() if key != "default"}
        made.symbols, made.symbol_default = dict.fromkeys(symbols), default

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
                self._defaults.append((made.name, read))
        made.fields = tuple(fields)

    def _field(self, made: AvroType, value: Any) -> AvroField:
        if not isinstance(value, dict):
            raise InvalidSchema(f"A field of {made.name} is not an object")
        name = self._check_name(value.get("name"), f"field of {made.name}")
        if "type" not in value:
            raise InvalidSchema(f"No field type: {made.name}.{name}")
        order = value.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            raise InvalidSchema(f"Invalid order {compact(order)[:100]} of field {made.name}.{name}")
        doc = value.get("doc")
        type_ = self.read(value["type"], made.namespace)
        return AvroField(
            name=name,
            type=type_,
            has_default="default" in value,
            default=number_of_text(type_, value.get("default")),
            order=order.lower(),
            doc=doc if isinstance(doc, str) else None,
            aliases=_aliases(value),
            properties={key: each for key, each in value.items() if key not in _FIELD_RESERVED},
        )

    def _check_name(self, name: Any, what: str) -> str:
        """Letters of any language, digits and underscores, as in Java."""
        said = f"Illegal name of a {what}: {compact(name)[:100]}"
        if not isinstance(name, str) or not name:
            raise InvalidSchema(said)
        letters = name.replace("_", "a")
        if letters[0].isdecimal() or not all(each.isalpha() or each.isdecimal() for each in letters):
            self._complain(said)
        return name

    def _full_name(self, value: dict[str, Any], space: str) -> str:
        name = value.get("name")
        if not isinstance(name, str):
            raise InvalidSchema(f"No name in schema: {compact(value)[:200]}")
        namespace = value.get("namespace", space)
        if "." in name:
            namespace, _, name = name.rpartition(".")
        if not isinstance(namespace, str):
            raise InvalidSchema(f"The namespace of {name} is not a string")
        for part in (*(namespace.split(".") if namespace else ()), name):
            self._check_name(part, "type")
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
