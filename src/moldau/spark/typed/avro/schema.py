"""The columns that values of an Avro schema fill.

Pure. A schema that Spark has no type for (one that contains itself, a decimal of more than 38 digits) is a
``SchemaError`` that says where. Logical types that Spark has no type for count as their plain type.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from moldau.schemas.avro.parse import parse_with_texts
from moldau.schemas.avro.types import PRIMITIVES, AvroType
from moldau.schemas.limits import InvalidSchema
from moldau.spark.typed.shapes import SchemaError, Shape, ShapeMaker

MAX_DEPTH = 48
MAX_DECIMAL_DIGITS = 38

#: By the meaning of a logical type.
_LOGICAL = {
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "local-timestamp": pa.timestamp("us"),
}
#: Parts of a second that the kernels can turn into microseconds; 0 for what is no time of day.
_UNITS = (0, 1_000, 1_000_000)
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


def parse(text: str, references: Iterable[str] = ()) -> AvroType:
    """The schema; ``references`` are those whose names it uses, each behind what it uses itself."""
    if text.strip() in PRIMITIVES:
        return AvroType(text.strip())
    try:
        root = parse_with_texts(text, list(references), lenient=True).root
    except InvalidSchema as error:
        raise SchemaError(f"the Avro schema cannot be used: {error}") from None
    _check(root, [], set(), 0)
    return root


def _check(schema: AvroType, outer: list[str], checked: set[str], depth: int) -> None:
    """Raises where a kernel, or Spark, has no way to keep such values."""
    if depth > MAX_DEPTH:
        raise SchemaError(f"the Avro schema is nested more than {MAX_DEPTH} times")
    if schema.name in outer:
        raise SchemaError(
            f"the Avro type {schema.name} holds itself, and Spark has no type for that: read the value as "
            "bytes and decode it in a function of your own"
        )
    if meaning(schema) == "decimal" and (digits := schema.properties["precision"]) > MAX_DECIMAL_DIGITS:
        raise SchemaError(f"a decimal of {digits} digits is more than Spark's {MAX_DECIMAL_DIGITS}")
    if schema.name in checked:
        return
    within = [*outer, schema.name] if schema.name else outer
    inner = [schema.inner] if schema.inner is not None else []
    for part in (*inner, *schema.branches, *(field.type for field in schema.fields)):
        _check(part, within, checked, depth + 1)
    if schema.name:
        checked.add(schema.name)


def meaning(schema: AvroType) -> str:
    """What a logical type means, where Spark has a type for that; else nothing."""
    logical = schema.logical
    if logical is None or logical.per_second not in _UNITS:
        return ""
    return logical.meaning if logical.meaning == "decimal" or logical.meaning in _LOGICAL else ""


def reader_shape(schema: AvroType) -> Shape:
    """The columns that values read by this schema fill."""
    return _shape(schema, ShapeMaker())


def real_branches(union: AvroType) -> list[AvroType]:
    """The branches that are not null."""
    return [branch for branch in union.branches if branch.kind != "null"]


def merged(branches: Sequence[AvroType]) -> AvroType | None:
    """The one type of branches that fit together, as Spark has it: numbers of two sizes are the larger."""
    if len(branches) == 1:
        return branches[0]
    kinds = {branch.kind for branch in branches}
    if any(map(meaning, branches)):
        return None
    if kinds == {"int", "long"}:
        return AvroType("long")
    return AvroType("double") if kinds == {"float", "double"} else None


def _shape(schema: AvroType, maker: ShapeMaker) -> Shape:
    made = _nullable_shape(schema, maker)
    # Spark looks for nulls only where there may be some, and shows users which fields are always there.
    return made if schema.nullable else replace(made, nullable=False)


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
        return maker.array(_shape(schema.item, maker))
    if schema.kind == "map":
        return maker.map(maker.leaf(pa.string()), _shape(schema.item, maker))
    if meaning(schema) == "decimal":
        return maker.leaf(decimal_type(schema))
    return maker.leaf(_LOGICAL.get(meaning(schema), _PLAIN[schema.kind]), tuple(schema.symbols))


def decimal_type(schema: AvroType) -> pa.DataType:
    return pa.decimal128(schema.properties["precision"], schema.properties.get("scale", 0))
