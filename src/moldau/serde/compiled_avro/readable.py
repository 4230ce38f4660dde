"""Whether values of one Avro type can be read as another, and how. Pure."""

from typing import TypeAlias

from moldau.schemas.avro.resolution import matching_branch, matching_fields, same_name
from moldau.schemas.avro.types import AvroType

#: (writer, reader) -> the expression of the value, from that of what was read.
_PROMOTED = {
    ("int", "long"): "{}",
    ("int", "float"): "float({})",
    ("int", "double"): "float({})",
    ("long", "float"): "float({})",
    ("long", "double"): "float({})",
    ("float", "double"): "{}",
    ("string", "bytes"): "{}.encode()",
    ("bytes", "string"): "{}.decode()",
}
#: Records that are being looked at, or were found good: the writer's and the reader's.
_Seen: TypeAlias = set[tuple[AvroType, AvroType]]


class Unresolved(Exception):
    """What cannot be read as what, and at which field."""

    def __init__(self, said: str, path: str = "") -> None:
        super().__init__(said, path)
        self.said = said
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.said}" if self.path else self.said


def check(writer: AvroType, reader: AvroType, seen: _Seen | None = None) -> None:
    """Raises where one type can never be read as another; of a writer's union it is known with the data."""
    seen = set() if seen is None else seen
    if writer.kind == "union":
        return
    reader = branch_of(writer, reader, seen)
    promotion(writer, reader)
    if writer.kind == "record":
        _check_record(writer, reader, seen)
    elif writer.kind in ("array", "map"):
        check(writer.item, reader.item, seen)


def promotion(writer: AvroType, reader: AvroType) -> str:
    """The expression that makes a value of one type one of the other; neither is a union."""
    if writer.kind == reader.kind:
        # Records go by their fields; an enum and a fixed must have the same name.
        if writer.kind in ("enum", "fixed") and not same_name(writer, reader):
            raise Unresolved(f"{writer.name} and {reader.name} have different names")
        if writer.size != reader.size:
            raise Unresolved(f"{writer.name} has {writer.size} bytes, the reader's has {reader.size}")
        return "{}"
    step = _PROMOTED.get((writer.kind, reader.kind))
    if step is None:
        raise Unresolved(f"a {writer.called} cannot be read as {reader.called}")
    return step


def branch_of(writer: AvroType, reader: AvroType, seen: _Seen | None = None) -> AvroType:
    """The branch that stands for a type where the reader has a union; else the reader itself."""
    if reader.kind != "union":
        return reader

    def readable(written: AvroType, branch: AvroType) -> bool:
        try:
            check(written, branch, seen)
        except Unresolved:
            return False
        return True

    found = matching_branch(writer, reader.branches, readable)
    if found is None:
        names = ", ".join(branch.called for branch in reader.branches)
        raise Unresolved(f"a {writer.called} fits none of {names}")
    return found


def _check_record(writer: AvroType, reader: AvroType, seen: _Seen) -> None:
    if (writer, reader) in seen:
        return
    seen.add((writer, reader))
    try:
        pairs, rest = matching_fields(writer, reader)
        for place in rest:
            if not reader.fields[place].has_default:
                name = reader.fields[place].name
                raise Unresolved(
                    f"{reader.name} has a field {name!r} without a default that {writer.name} does not have"
                )
        for written, found in pairs:
            if found is not None:
                _check_field(written.type, reader.fields[found].type, reader.fields[found].name, seen)
    except Unresolved:
        seen.discard((writer, reader))
        raise


def _check_field(writer: AvroType, reader: AvroType, name: str, seen: _Seen) -> None:
    try:
        check(writer, reader, seen)
    except Unresolved as error:
        raise Unresolved(error.said, f"{name}.{error.path}" if error.path else name) from None
