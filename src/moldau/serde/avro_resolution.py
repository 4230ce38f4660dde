"""Avro's schema resolution: what of a writer's schema stands for what of a reader's.

Invariant: pure, by the rules of the specification. What has no counterpart raises ``Unresolved`` with its
reason.
"""

from typing import Any, TypeAlias

from moldau.serde.avro_schema import NAMED, AvroSchema, branch_name, kind

#: Promotions: (writer, reader) -> the expression of the value, from that of what was read.
_PROMOTIONS = {
    ("int", "long"): "{}",
    ("int", "float"): "float({})",
    ("int", "double"): "float({})",
    ("long", "float"): "float({})",
    ("long", "double"): "float({})",
    ("float", "double"): "{}",
    ("string", "bytes"): "{}.encode()",
    ("bytes", "string"): "{}.decode()",
}


#: Records that are being looked at, or were found good: the writer's name and the reader's.
Seen: TypeAlias = set[tuple[str, str]]


class Unresolved(Exception):
    """Says what cannot be read as what, and, as its second argument, at which field."""

    def __str__(self) -> str:
        said, *path = self.args
        return f"{path[0]}: {said}" if path else str(said)


def promoted(writer: Any, reader: Any) -> str:
    """How a value of one type becomes one of another; neither is a union."""
    if kind(reader) == "union":
        return "{}"
    if kind(writer) == kind(reader):
        _check_names(writer, reader)
        return "{}"
    step = _PROMOTIONS.get((kind(writer), kind(reader)))
    if step is None:
        raise Unresolved(f"a {branch_name(writer)} cannot be read as {branch_name(reader)}")
    return step


def _check_names(writer: Any, reader: Any) -> None:
    """Records go by their fields; an enum and a fixed have to have the same name."""
    if kind(writer) not in ("enum", "fixed"):
        return
    if not same_name(writer, reader):
        raise Unresolved(f"{writer['name']} and {reader['name']} have different names")
    if kind(writer) == "fixed" and writer["size"] != reader["size"]:
        raise Unresolved(f"{writer['name']} has {writer['size']} bytes, the reader's has {reader['size']}")


def same_name(writer: Any, reader: Any) -> bool:
    """Without their namespaces, or by an alias of the reader's."""
    names = {reader["name"], *reader.get("aliases", ())}
    short = writer["name"].rpartition(".")[2]
    return any(name == writer["name"] or name.rpartition(".")[2] == short for name in names)


def matching_fields(writer: Any, reader: Any) -> list[tuple[Any, Any | None]]:
    """Each field of the writer with the reader's; the reader's others need defaults."""
    by_name = {field["name"]: field for field in reader["fields"]}
    by_alias = {alias: field for field in reader["fields"] for alias in field.get("aliases", ())}
    taken: set[str] = set()
    found: list[tuple[Any, Any | None]] = []
    written = {field["name"] for field in writer["fields"]}
    for field in writer["fields"]:
        wanted = by_name.get(field["name"])
        if wanted is None:
            wanted = by_alias.get(field["name"])
            if wanted is not None and (wanted["name"] in written or wanted["name"] in taken):
                wanted = None
        if wanted is not None:
            taken.add(wanted["name"])
        found.append((field, wanted))
    for field in reader["fields"]:
        if field["name"] not in taken and "default" not in field:
            said = f"{reader['name']} has a field {field['name']!r} without a default"
            raise Unresolved(f"{said} that {writer['name']} does not have")
    return found


def enum_symbols(writer: Any, reader: Any) -> tuple[str | None, ...]:
    """The reader's symbol for each of the writer's; None where there is none and no default."""
    symbols, default = set(reader["symbols"]), reader.get("default")
    return tuple(symbol if symbol in symbols else default for symbol in writer["symbols"])


def matching_branch(
    writer: AvroSchema, reader: AvroSchema, written: Any, union: list[Any], seen: Seen | None = None
) -> Any:
    """The branch of the reader's union for a type that is none: the same one before others that will do."""
    branches = [reader.resolved(branch) for branch in union]
    for same in (_identical, _alike, _any):
        for branch in branches:
            if same(written, branch) and _readable(writer, reader, written, branch, seen):
                return branch
    raise Unresolved(f"a {branch_name(written)} fits none of {', '.join(map(branch_name, branches))}")


def _identical(written: Any, branch: Any) -> bool:
    same = kind(written) == kind(branch)
    return same and (kind(written) not in NAMED or bool(written["name"] == branch["name"]))


def _alike(written: Any, branch: Any) -> bool:
    return kind(written) == kind(branch) and same_name(written, branch)


def _any(written: Any, branch: Any) -> bool:
    return True


def _readable(writer: AvroSchema, reader: AvroSchema, written: Any, branch: Any, seen: Seen | None) -> bool:
    try:
        check(writer, reader, written, branch, seen)
    except Unresolved:
        return False
    return True


def check(
    writer: AvroSchema, reader: AvroSchema, written: Any, wanted: Any, seen: Seen | None = None
) -> None:
    """Raises where one type can never be read as another; of a writer's union it is known with the data."""
    seen = set() if seen is None else seen
    written, wanted = writer.resolved(written), reader.resolved(wanted)
    if kind(written) == "union":
        return
    if kind(wanted) == "union":
        wanted = matching_branch(writer, reader, written, wanted, seen)
    promoted(written, wanted)
    match kind(written):
        case "record":
            _check_record(writer, reader, written, wanted, seen)
        case "array":
            check(writer, reader, written["items"], wanted["items"], seen)
        case "map":
            check(writer, reader, written["values"], wanted["values"], seen)


def _check_record(writer: AvroSchema, reader: AvroSchema, written: Any, wanted: Any, seen: Seen) -> None:
    pair = (written["name"], wanted["name"])
    if pair in seen:
        return
    seen.add(pair)
    try:
        for field, other in matching_fields(written, wanted):
            if other is not None:
                _check_field(writer, reader, field, other, seen)
    except Unresolved:
        seen.discard(pair)
        raise


def _check_field(writer: AvroSchema, reader: AvroSchema, field: Any, other: Any, seen: Seen) -> None:
    try:
        check(writer, reader, field["type"], other["type"], seen)
    except Unresolved as error:
        inner, said = (error.args[1], error.args[0]) if len(error.args) > 1 else ("", error.args[0])
        path = f"{other['name']}.{inner}" if inner else other["name"]
        raise Unresolved(said, path) from None
