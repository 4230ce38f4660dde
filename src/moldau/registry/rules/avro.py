"""Whether data written with one Avro schema can be read with another, and Confluent's words for why not.

Pure: the rules of resolution are ``schemas.avro.resolution``'s; every branch of the writer's union must
have one at the reader.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from moldau.registry.rules.differences import Difference, TooComplex, Walk, under
from moldau.schemas.avro.resolution import same_kind, same_name, source_of
from moldau.schemas.avro.types import AvroType

#: A step is cheap here, and unions of hundreds of records are met in practice.
_MAX_COMPARISONS = 300_000
_UNNAMED = ""


def unreadable(reader: AvroType, writer: AvroType) -> list[Difference]:
    """Why the reader cannot take what the writer may have written; empty when it can."""
    try:
        return list(_Resolution().compare(reader, writer))
    except (TooComplex, RecursionError):
        return [Difference("SCHEMA_TOO_COMPLEX", "/")]


def _mismatch(reader: AvroType, writer: AvroType) -> list[Difference]:
    information = f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
    return [Difference("TYPE_MISMATCH", information=information)]


@dataclass(slots=True)
class _Resolution:
    walk: Walk = field(default_factory=lambda: Walk(_MAX_COMPARISONS))
    #: The branches of a reader's union by the names under which a writer's type may mean them.
    _named: dict[int, dict[str, list[AvroType]]] = field(default_factory=dict)

    def compare(self, reader: AvroType, writer: AvroType) -> tuple[Difference, ...]:
        return self.walk.compare(reader, writer, lambda: self._resolve(reader, writer))

    def _resolve(self, reader: AvroType, writer: AvroType) -> list[Difference]:
        if writer.kind == "union":
            return self._writer_union(reader, writer)
        if reader.kind == "union":
            return self._reader_union(reader, writer)
        if reader.kind != writer.kind:
            return [] if same_kind(writer, reader) else _mismatch(reader, writer)
        if reader.inner is not None and writer.inner is not None:
            return under(
                "/items" if reader.kind == "array" else "/values", self.compare(reader.inner, writer.inner)
            )
        if not reader.name:
            return []
        found = _names(reader, writer)
        if reader.kind == "fixed" and reader.size != writer.size:
            information = f"expected: {writer.size}, found: {reader.size}"
            found.append(Difference("FIXED_SIZE_MISMATCH", "/size", information=information))
        elif reader.kind == "enum":
            missing = writer.symbols.keys() - reader.symbols.keys()
            if missing and reader.symbol_default is None:
                information = f"[{', '.join(sorted(missing))}]"
                found.append(Difference("MISSING_ENUM_SYMBOLS", "/symbols", information=information))
        elif reader.kind == "record":
            found += self._fields(reader, writer)
        return found

    def _writer_union(self, reader: AvroType, writer: AvroType) -> list[Difference]:
        found: list[Difference] = []
        for index, branch in enumerate(writer.branches):
            answer = self.compare(reader, branch)
            if not answer:
                continue
            if reader.kind == "union":
                found.append(_lacking(branch, f"/{index}"))
            else:
                found += under(f"/{index}", answer)
        return found

    def _reader_union(self, reader: AvroType, writer: AvroType) -> list[Difference]:
        if any(not self.compare(branch, writer) for branch in self._candidates(reader, writer)):
            return []
        return [_lacking(writer)]

    def _candidates(self, reader: AvroType, writer: AvroType) -> list[AvroType]:
        """The branches that could take the writer's type at all: one of another name never can, and a union
        of thousands of records is not compared with each of thousands.
        """
        if id(reader) not in self._named:
            self._named[id(reader)] = _by_name(reader.branches)
        named = self._named[id(reader)]
        if not writer.name:
            return named[_UNNAMED]
        return [*named.get(f".{writer.short_name}", ()), *named.get(writer.name, ())]

    def _fields(self, reader: AvroType, writer: AvroType) -> list[Difference]:
        written = {each.name: each for each in writer.fields}
        found: list[Difference] = []
        for index, each in enumerate(reader.fields):
            match = source_of(each, written)
            meant = sorted(written.keys() & {each.name, *each.aliases})
            if len(meant) > 1:
                # Avro's own readers fail on it: two fields of the writer would get one name.
                several = Difference(
                    "FIELD_MATCHES_SEVERAL", f"/fields/{index}", information=", ".join(meant)
                )
                found.append(several)
            elif match is not None:
                found += under(f"/fields/{index}/type", self.compare(each.type, match.type))
            elif not each.has_default:
                found.append(
                    Difference(
                        "READER_FIELD_MISSING_DEFAULT_VALUE", f"/fields/{index}", information=each.name
                    )
                )
        return found


def _by_name(branches: Iterable[AvroType]) -> dict[str, list[AvroType]]:
    """Short names with a dot in front, aliases in full, and those without a name."""
    found: dict[str, list[AvroType]] = {_UNNAMED: []}
    for branch in branches:
        names = [f".{branch.short_name}", *branch.aliases] if branch.name else [_UNNAMED]
        for name in names:
            found.setdefault(name, []).append(branch)
    return found


def _names(reader: AvroType, writer: AvroType) -> list[Difference]:
    if same_name(writer, reader):
        return []
    return [Difference("NAME_MISMATCH", "/name", information=f"expected: {writer.name}")]


def _lacking(branch: AvroType, path: str = "") -> Difference:
    return Difference(
        "MISSING_UNION_BRANCH", path, information=f"reader union lacking writer type: {branch.kind.upper()}"
    )


_DESCRIPTIONS = {
    "FIXED_SIZE_MISMATCH": "The size of FIXED type field at path '{path}' in the {reader} schema does not "
    "match with the {writer} schema",
    "TYPE_MISMATCH": "The type (path '{path}') of a field in the {reader} schema does not match with "
    "the {writer} schema",
    "NAME_MISMATCH": "The name of the schema has changed (path '{path}')",
    "MISSING_ENUM_SYMBOLS": "The {reader} schema is missing enum symbols '{information}' at path '{path}' in "
    "the {writer} schema",
    "MISSING_UNION_BRANCH": "The {reader} schema is missing a type inside a union field at path '{path}' in "
    "the {writer} schema",
    "READER_FIELD_MISSING_DEFAULT_VALUE": "The field '{information}' at path '{path}' in the {reader} schema "
    "has no default value and is missing in the {writer} schema",
    "FIELD_MATCHES_SEVERAL": "The field at path '{path}' in the {reader} schema matches several fields, "
    "by its name and its aliases, in the {writer} schema",
    "SCHEMA_TOO_COMPLEX": "The {reader} schema takes too many steps to compare with the {writer} schema",
}


def message(difference: Difference, reader: str, writer: str) -> str:
    """One line of the verbose answer; `reader` and `writer` are the words new and old, either way round."""
    description = _DESCRIPTIONS[difference.kind].format(
        path=difference.path or "/", information=difference.information, reader=reader, writer=writer
    )
    information = f"additionalInfo:'{difference.information}'"
    return f"{{errorType:'{difference.kind}', description:'{description}', {information}}}"
