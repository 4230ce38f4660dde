"""Avro schemas: their text to a tree of types, and the shape of the columns that a reader's schema fills.

Invariant: pure. A schema that Spark has no type for (one that holds itself, a decimal of more than 38
digits) is a ``SchemaError`` that says where. Logical types that are not known count as their plain type, as
Avro has it.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from moldau.spark.typed.shapes import SchemaError, Shape, ShapeMaker

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
MAX_DEPTH = 48
MAX_DECIMAL_DIGITS = 38
_UTC = pa.timestamp("us", tz="UTC")

#: Logical types by plain type that change how a value is read.
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): _UTC,
    ("long", "timestamp-micros"): _UTC,
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()


@dataclass(frozen=True, slots=True)
class AvroField:
    name: str
    type: "AvroType"
    default: Any = MISSING
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AvroType:
    """``kind`` is a primitive's name, or record, enum, fixed, array, map or union."""

    kind: str
    name: str = ""
    fields: tuple[AvroField, ...] = ()
    #: The items of an array, the values of a map, the branches of a union.
    parts: tuple["AvroType", ...] = ()
    symbols: tuple[str, ...] = ()
    #: The symbol that stands for one that is not known.
    default_symbol: str | None = None
    size: int = 0
    logical: str = ""
    precision: int = 0
    scale: int = 0
    aliases: tuple[str, ...] = ()

    @property
    def plain_name(self) -> str:
        return self.name.rsplit(".", 1)[-1]


@dataclass(slots=True)
class _Names:
    known: dict[str, AvroType] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)


def parse(text: str, references: Iterable[str] = ()) -> AvroType:
    """The schema; ``references`` are those whose names it uses, each behind what it uses itself."""
    names = _Names()
    for each in references:
        _type(_loaded(each), "", names, 0)
    return _type(_loaded(text), "", names, 0)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        stripped = text.strip()
        if stripped in PRIMITIVES:
            return stripped
        raise SchemaError(f"the Avro schema is not JSON: {text[:80]!r}") from None


def _type(given: Any, namespace: str, names: _Names, depth: int) -> AvroType:
    if depth > MAX_DEPTH:
        raise SchemaError(f"the Avro schema is nested more than {MAX_DEPTH} times")
    if isinstance(given, str):
        return _named(given, namespace, names)
    if isinstance(given, list):
        return AvroType("union", parts=tuple(_type(each, namespace, names, depth + 1) for each in given))
    if not isinstance(given, dict) or "type" not in given:
        raise SchemaError(f"the Avro schema has {json.dumps(given)[:80]} where a type should be")
    kind = given["type"]
    if not isinstance(kind, str):
        return _type(kind, namespace, names, depth + 1)
    if kind in PRIMITIVES:
        return _with_logical(AvroType(kind), given)
    if kind in ("array", "map"):
        inner = given.get("items" if kind == "array" else "values")
        return AvroType(kind, parts=(_type(inner, namespace, names, depth + 1),))
    if kind in ("record", "error", "enum", "fixed"):
        return _definition(kind, given, namespace, names, depth)
    return _named(kind, namespace, names)


def _named(name: str, namespace: str, names: _Names) -> AvroType:
    if name in PRIMITIVES:
        return AvroType(name)
    full = name if "." in name or not namespace else f"{namespace}.{name}"
    for candidate in (full, name):
        if candidate in names.open:
            raise SchemaError(
                f"the Avro type {candidate} holds itself, and Spark has no type for that: read the value as "
                "bytes and decode it in a function of your own"
            )
        if candidate in names.known:
            return names.known[candidate]
    raise SchemaError(f"the Avro schema uses the name {full}, which it does not define")


def _definition(kind: str, given: dict[str, Any], namespace: str, names: _Names, depth: int) -> AvroType:
    name = str(given.get("name", ""))
    if not name:
        raise SchemaError(f"an Avro {kind} has no name")
    if "." not in name:
        inherited = given.get("namespace", namespace) or ""
        name = f"{inherited}.{name}" if inherited else name
    inner = name.rpartition(".")[0]
    aliases = tuple(str(each).rsplit(".", 1)[-1] for each in given.get("aliases", ()))
    if kind == "enum":
        symbols = tuple(given.get("symbols", ()))
        made = AvroType("enum", name, symbols=symbols, default_symbol=given.get("default"), aliases=aliases)
    elif kind == "fixed":
        made = _with_logical(AvroType("fixed", name, size=int(given.get("size", -1)), aliases=aliases), given)
        if made.size < 0:
            raise SchemaError(f"the Avro fixed {name} has no size")
    else:
        names.open.append(name)
        fields = tuple(_field(each, inner, names, depth) for each in given.get("fields", ()))
        names.open.pop()
        made = AvroType("record", name, fields, aliases=aliases)
    names.known[name] = made
    return made


def _field(given: Any, namespace: str, names: _Names, depth: int) -> AvroField:
    if not isinstance(given, dict) or "name" not in given or "type" not in given:
        raise SchemaError(f"an Avro field has no name or no type: {json.dumps(given)[:80]}")
    return AvroField(
        given["name"],
        _type(given["type"], namespace, names, depth + 1),
        given.get("default", MISSING),
        tuple(given.get("aliases", ())),
    )


def _with_logical(plain: AvroType, given: dict[str, Any]) -> AvroType:
    logical = given.get("logicalType")
    if logical == "decimal" and plain.kind in ("bytes", "fixed"):
        precision, scale = given.get("precision"), given.get("scale", 0)
        if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision:
            if precision > MAX_DECIMAL_DIGITS:
                raise SchemaError(
                    f"a decimal of {precision} digits is more than Spark's {MAX_DECIMAL_DIGITS}"
                )
            return AvroType(
                plain.kind, plain.name, size=plain.size, logical="decimal", precision=precision, scale=scale
            )
    if (plain.kind, logical) in _LOGICAL:
        return AvroType(plain.kind, logical=str(logical))
    return plain


# The columns of a reader's schema.


def reader_shape(schema: AvroType) -> Shape:
    """The columns that values read by this schema fill."""
    return _shape(schema, ShapeMaker())


def real_branches(union: AvroType) -> list[AvroType]:
    """The branches that are not null."""
    return [branch for branch in union.parts if branch.kind != "null"]


def merged(branches: Sequence[AvroType]) -> AvroType | None:
    """The one type of branches that fit together, as Spark has it: numbers of two sizes are the larger."""
    if len(branches) == 1:
        return branches[0]
    kinds = {branch.kind for branch in branches}
    if any(branch.logical for branch in branches):
        return None
    if kinds == {"int", "long"}:
        return AvroType("long")
    return AvroType("double") if kinds == {"float", "double"} else None


def _shape(schema: AvroType, maker: ShapeMaker) -> Shape:
    made = _nullable_shape(schema, maker)
    # Spark asks of each row only what may be null, and tells users which fields always are there.
    kinds = {schema.kind, *(branch.kind for branch in schema.parts if schema.kind == "union")}
    return made if "null" in kinds else replace(made, nullable=False)


def _nullable_shape(schema: AvroType, maker: ShapeMaker) -> Shape:
    if schema.kind == "union":
        branches = real_branches(schema)
        if not branches:
            return maker.leaf(pa.null())
        if (one := merged(branches)) is not None:
            return _nullable_shape(one, maker)
        members = [_nullable_shape(branch, maker) for branch in branches]
        return maker.record([f"member{index}" for index in range(len(members))], members)
    if schema.kind == "record":
        fields = [_shape(each.type, maker) for each in schema.fields]
        return maker.record([each.name for each in schema.fields], fields)
    if schema.kind == "array":
        return maker.array(_shape(schema.parts[0], maker))
    if schema.kind == "map":
        return maker.map(maker.leaf(pa.string()), _shape(schema.parts[0], maker))
    if schema.logical == "decimal":
        return maker.leaf(pa.decimal128(schema.precision, schema.scale))
    if schema.logical:
        return maker.leaf(_LOGICAL[schema.kind, schema.logical])
    return maker.leaf(_PLAIN[schema.kind], schema.symbols)
