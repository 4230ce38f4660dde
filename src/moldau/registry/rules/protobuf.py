"""What a new Protobuf schema changes, and whether bytes that the old one wrote still mean the same.

Fields are known by their numbers. Types may change inside a group that shares its encoding, nothing else. A
message may gain, lose and rename fields (not required ones); it may not vanish, and the package may not
change. A field may move into a oneof only alone, as the others of the oneof would wipe it out. The vocabulary
is that of Confluent's registry.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from google.protobuf import descriptor_pb2

from moldau.registry.rules.differences import Difference, TooComplex, Walk, breaks, under
from moldau.schemas.protobuf.schema import Named, ProtobufSchema

_FIELD = descriptor_pb2.FieldDescriptorProto
_WIRE_GROUPS = (
    ("INT32", "INT64", "UINT32", "UINT64", "BOOL", "ENUM"),
    ("SINT32", "SINT64"),
    ("STRING", "BYTES"),
    ("FIXED32", "SFIXED32"),
    ("FIXED64", "SFIXED64"),
    ("FLOAT",),
    ("DOUBLE",),
)
_GROUP_OF = {_FIELD.Type.Value(f"TYPE_{name}"): group[0] for group in _WIRE_GROUPS for name in group}


def _allowed(kind: str, path: str = "") -> Difference:
    return Difference(kind, path, breaking=False)


def changes(original: ProtobufSchema, update: ProtobufSchema) -> list[Difference]:
    """All differences, with paths such as `#/Person/3`; old bytes stay readable when none of them is
    breaking.
    """
    try:
        found = _Comparison(original, update).files()
    except (TooComplex, RecursionError):
        found = [Difference("SCHEMA_TOO_COMPLEX")]
    return [
        Difference(each.kind, "#" + (each.path or "/"), each.breaking, each.information) for each in found
    ]


@dataclass(slots=True)
class _Comparison:
    original: ProtobufSchema
    update: ProtobufSchema
    walk: Walk = field(default_factory=Walk)

    def files(self) -> list[Difference]:
        before, after = self.original.file, self.update.file
        found = [Difference("PACKAGE_CHANGED")] if before.package != after.package else []
        found += self._types(before.message_type, after.message_type, before.package, after.package)
        return found + _enums(before.enum_type, after.enum_type)

    def _types(self, before: Iterable[Any], after: Iterable[Any], old: str, new: str) -> list[Difference]:
        """Messages of one scope, by name; `old` and `new` are the full names of the scope."""
        olds = {each.name: (index, each) for index, each in enumerate(before) if not each.options.map_entry}
        news = {each.name: (index, each) for index, each in enumerate(after) if not each.options.map_entry}
        found: list[Difference] = []
        for name in {**olds, **news}:
            path = f"/{name}"
            if name not in news:
                found.append(Difference("MESSAGE_REMOVED", path))
            elif name not in olds:
                found.append(_allowed("MESSAGE_ADDED", path))
            else:
                scopes = (f"{old}.{name}" if old else name, f"{new}.{name}" if new else name)
                (place, message), (new_place, updated) = olds[name], news[name]
                found += under(path, self._message(message, updated, *scopes))
                if place != new_place:
                    # Indexes in a record are those of the schema that its id names: order is free.
                    found.append(_allowed("MESSAGE_MOVED", path))
        return found

    def _message(self, before: Any, after: Any, old: str, new: str) -> tuple[Difference, ...]:
        return self.walk.compare(before, after, lambda: self._compare_messages(before, after, old, new))

    def _compare_messages(self, before: Any, after: Any, old: str, new: str) -> list[Difference]:
        found = _oneofs(before, after)
        olds = {each.number: each for each in before.field}
        news = {each.number: each for each in after.field}
        home, new_home = _membership(before), _membership(after)
        for number in sorted({**olds, **news}):
            answer: list[Difference] = []
            path = f"/{number}"
            if number not in news:
                answer = [_removed(olds[number], home.get(number), set(new_home.values()))]
                path = f"/{home[number]}{path}" if answer[0].kind.startswith("ONEOF") else path
            elif number not in olds:
                answer = [_added(news[number], new_home.get(number), set(home.values()))]
                path = f"/{new_home[number]}{path}" if answer[0].kind.startswith("ONEOF") else path
            else:
                answer = self._field(olds[number], news[number])
            found += under(path, answer)
        found += self._types(before.nested_type, after.nested_type, old, new)
        return found + _enums(before.enum_type, after.enum_type)

    def _field(self, before: Any, after: Any) -> list[Difference]:
        found = [] if before.name == after.name else [_allowed("FIELD_NAME_CHANGED")]
        kinds = (self._kind(before, self.original), self._kind(after, self.update))
        if kinds[0] != kinds[1]:
            return [*found, Difference("FIELD_KIND_CHANGED")]
        found += _labels(before, after)
        return found + self._same_kind(before, after, kinds[0])

    def _same_kind(self, before: Any, after: Any, kind: str) -> list[Difference]:
        if kind == "scalar":
            same = _GROUP_OF[before.type] == _GROUP_OF[after.type]
            return [] if same else [Difference("FIELD_SCALAR_KIND_CHANGED")]
        first = self.original.types[before.type_name.lstrip(".")]
        second = self.update.types[after.type_name.lstrip(".")]
        if kind == "map":
            found: list[Difference] = []
            for old, new in zip(first.descriptor.field, second.descriptor.field, strict=True):
                found += [each for each in self._field(old, new) if each.kind != "FIELD_NAME_CHANGED"]
            return found
        return self._named(first, second)

    def _named(self, before: Named, after: Named) -> list[Difference]:
        if before.local_name != after.local_name:
            return [Difference("FIELD_NAMED_TYPE_CHANGED")]
        if before.file == self.original.file.name and after.file == self.update.file.name:
            return []  # compared where it is declared
        found = self._message(before.descriptor, after.descriptor, before.full_name, after.full_name)
        return [*found, *([Difference("FIELD_NAMED_TYPE_CHANGED")] if breaks(found) else [])]

    def _kind(self, each: Any, schema: ProtobufSchema) -> str:
        if each.type == _FIELD.TYPE_GROUP:
            return "group"
        if each.type != _FIELD.TYPE_MESSAGE:
            return "scalar"
        return "map" if schema.types[each.type_name.lstrip(".")].descriptor.options.map_entry else "message"


def _labels(before: Any, after: Any) -> list[Difference]:
    """One value and many values are encoded alike for strings and messages, not for numbers, which are
    packed.
    """
    found: list[Difference] = []
    required = _FIELD.LABEL_REQUIRED
    if (before.label == required) != (after.label == required):
        kind = "REQUIRED_FIELD_ADDED" if after.label == required else "REQUIRED_FIELD_REMOVED"
        found.append(Difference(kind))
    if (before.label == _FIELD.LABEL_REPEATED) != (after.label == _FIELD.LABEL_REPEATED):
        group = _GROUP_OF.get(before.type)
        if group == "STRING":
            found.append(_allowed("FIELD_STRING_OR_BYTES_LABEL_CHANGED"))
        elif group is not None:
            found.append(Difference("FIELD_NUMERIC_LABEL_CHANGED"))
    return found


def _membership(message: Any) -> dict[int, str]:
    """number -> the oneof it is in; the oneofs that `optional` makes in proto3 are not meant as such."""
    return {
        each.number: message.oneof_decl[each.oneof_index].name
        for each in message.field
        if each.HasField("oneof_index") and not each.proto3_optional
    }


def _removed(each: Any, oneof: str | None, remaining: set[str]) -> Difference:
    if oneof is not None and oneof in remaining:
        return Difference("ONEOF_FIELD_REMOVED")
    if each.label == _FIELD.LABEL_REQUIRED:
        return Difference("REQUIRED_FIELD_REMOVED")
    return _allowed("FIELD_REMOVED")


def _added(each: Any, oneof: str | None, known: set[str]) -> Difference:
    if oneof is not None and oneof in known:
        return _allowed("ONEOF_FIELD_ADDED")
    if each.label == _FIELD.LABEL_REQUIRED:
        return Difference("REQUIRED_FIELD_ADDED")
    return _allowed("FIELD_ADDED")


def _oneofs(before: Any, after: Any) -> list[Difference]:
    home, new_home = _membership(before), _membership(after)
    alone = {each.number for each in before.field} - set(home)
    found: list[Difference] = []
    together: dict[str, list[int]] = {}
    for number, oneof in new_home.items():
        together.setdefault(oneof, []).append(number)
    for name, members in together.items():
        moved = [number for number in members if number in alone]
        existing = [number for number in members if number in home]
        if len(moved) > 1:
            found.append(Difference("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"/{name}"))
        elif moved and existing:
            found.append(Difference("FIELD_MOVED_TO_EXISTING_ONEOF", f"/{name}"))
    gone = set(home.values()) - set(new_home.values())
    new = set(new_home.values()) - set(home.values())
    found += [_allowed("ONEOF_REMOVED", f"/{name}") for name in sorted(gone)]
    return found + [_allowed("ONEOF_ADDED", f"/{name}") for name in sorted(new)]


def _enums(before: Iterable[Any], after: Iterable[Any]) -> list[Difference]:
    olds, news = {each.name: each for each in before}, {each.name: each for each in after}
    found = [_allowed("ENUM_REMOVED", f"/{name}") for name in olds if name not in news]
    found += [_allowed("ENUM_ADDED", f"/{name}") for name in news if name not in olds]
    for name in (name for name in olds if name in news):
        constants = {each.number: each.name for each in olds[name].value}
        updated = {each.number: each.name for each in news[name].value}
        for number in sorted({**constants, **updated}):
            path = f"/{name}/{number}"
            if number not in updated:
                found.append(_allowed("ENUM_CONST_REMOVED", path))
            elif number not in constants:
                found.append(_allowed("ENUM_CONST_ADDED", path))
            elif constants[number] != updated[number]:
                found.append(_allowed("ENUM_CONST_CHANGED", path))
    return found


_SENTENCES = {
    "PACKAGE_CHANGED": "The package of the {new} schema is not that of the {old} schema",
    "MESSAGE_REMOVED": "The {new} schema lacks the message at path '{path}', which is present in the "
    "{old} schema",
    "FIELD_KIND_CHANGED": "The field at path '{path}' is of another kind in the {new} schema than in "
    "the {old} schema",
    "FIELD_SCALAR_KIND_CHANGED": "The scalar type of the field at path '{path}' in the {new} schema has "
    "other bytes than in "
    "the {old} schema",
    "FIELD_NAMED_TYPE_CHANGED": "The type that the field at path '{path}' names in the {new} schema "
    "does not match the "
    "{old} schema",
    "FIELD_NUMERIC_LABEL_CHANGED": "The numeric field at path '{path}' is repeated in only one of the "
    "{new} and {old} schema",
    "REQUIRED_FIELD_ADDED": "The field at path '{path}' is required in the {new} schema and not in the "
    "{old} schema",
    "REQUIRED_FIELD_REMOVED": "The field at path '{path}' is required in the {old} schema and not in "
    "the {new} schema",
    "ONEOF_FIELD_REMOVED": "The {new} schema lacks the oneof field at path '{path}', which is present "
    "in the {old} schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "The oneof at path '{path}' in the {new} schema takes in several "
    "fields of the {old} schema",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "A field of the {old} schema moved into the oneof at path '{path}' "
    "of the {new} schema",
    "SCHEMA_TOO_COMPLEX": "The {new} and the {old} schema take too many steps to compare",
}


def message(difference: Difference, new: str, old: str) -> str:
    description = _SENTENCES[difference.kind].format(path=difference.path, new=new, old=old)
    return f'{{errorType:"{difference.kind}", description:"{description}"}}'
