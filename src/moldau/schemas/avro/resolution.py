"""Avro's schema resolution: what of a writer's schema stands for what of a reader's.

Pure: these are the rules of the specification, as Avro's own checker takes them. Logical types never
decide. The registry's compatibility rules, the compiled decoders and Spark's programs walk the trees with
these and say in their own words what does not fit.
"""

from collections.abc import Callable, Mapping, Sequence

from moldau.schemas.avro.types import AvroField, AvroType

#: By the reader's kind: what else than itself it can read.
PROMOTIONS: Mapping[str, frozenset[str]] = {
    "long": frozenset({"int"}),
    "float": frozenset({"int", "long"}),
    "double": frozenset({"int", "long", "float"}),
    "bytes": frozenset({"string"}),
    "string": frozenset({"bytes"}),
}


def same_kind(writer: AvroType, reader: AvroType) -> bool:
    """Whether a value of one kind can be read as the other; neither is a union."""
    return writer.kind == reader.kind or writer.kind in PROMOTIONS.get(reader.kind, ())


def same_name(writer: AvroType, reader: AvroType) -> bool:
    """Without their namespaces, or by an alias of the reader's."""
    return reader.short_name == writer.short_name or writer.name in reader.aliases


def source_of(field: AvroField, written: Mapping[str, AvroField]) -> AvroField | None:
    """The writer's field that feeds a reader's: by its name, else by the first alias that names one."""
    for name in (field.name, *field.aliases):
        if name in written:
            return written[name]
    return None


def matching_fields(
    writer: AvroType, reader: AvroType
) -> tuple[list[tuple[AvroField, int | None]], list[int]]:
    """Each field of the writer with the place of the reader's, and the places that get their defaults."""
    written = {each.name: each for each in writer.fields}
    places: dict[str, int] = {}
    rest: list[int] = []
    # A field that feeds one of its own name feeds no alias.
    ordered = sorted(enumerate(reader.fields), key=lambda pair: pair[1].name not in written)
    for place, field in ordered:
        source = source_of(field, written)
        if source is None or source.name in places:
            rest.append(place)
        else:
            places[source.name] = place
    return [(each, places.get(each.name)) for each in writer.fields], sorted(rest)


def enum_symbols(writer: AvroType, reader: AvroType) -> list[str | None]:
    """The reader's symbol for each of the writer's; None where there is none and no default."""
    return [symbol if symbol in reader.symbols else reader.symbol_default for symbol in writer.symbols]


def matching_branch(
    written: AvroType, branches: Sequence[AvroType], readable: Callable[[AvroType, AvroType], bool]
) -> AvroType | None:
    """The branch of a reader's union for a type that is none: the same one before others that will do."""
    for alike in (_identical, _alike, _any):
        for branch in branches:
            if alike(written, branch) and readable(written, branch):
                return branch
    return None


def _identical(written: AvroType, branch: AvroType) -> bool:
    return written.called == branch.called


def _alike(written: AvroType, branch: AvroType) -> bool:
    return written.kind == branch.kind and (not written.name or same_name(written, branch))


def _any(written: AvroType, branch: AvroType) -> bool:
    return True
