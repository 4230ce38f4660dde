"""What the records of ``_schemas`` say, all together: subjects, versions, ids, configs and modes.

``apply`` takes one entry, live and at the start alike; everything else only looks. What should be written is
decided in ``decisions``.

Invariant: pure. ``apply`` is the only writer, takes any entry and never raises. An id stands for one schema
in its context for as long as any version has it: a record that says otherwise is counted and left out. A
number that was an id once is not given out again (``next_id``).
"""

import hashlib
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from moldau.registry.data_contracts import canonical, metadata_form, rule_set_form
from moldau.registry.errors import subject_not_found, version_not_found
from moldau.registry.records import (
    ClearSubjectKey,
    ConfigKey,
    ContextKey,
    DeleteSubjectKey,
    Entry,
    FieldsValue,
    ModeKey,
    NoopKey,
    SchemaKey,
    SchemaValue,
    UnknownKey,
)
from moldau.registry.schemas import Reference
from moldau.registry.subjects import ALL_CONTEXTS, DEFAULT_CONTEXT, normal, qualified, split, within

#: What makes two schemas the same: type, text, references, metadata and rules.
Content: TypeAlias = tuple[str, str, tuple[Reference, ...], str, str]
_K = TypeVar("_K")
_V = TypeVar("_V")
LATEST = -1
#: A field of ours in the record of a context, which other registries pass over: the highest id that it gave.
MAX_ID = "maxId"
#: How many of the records that could not be used are remembered, for those who ask why.
_REMEMBERED = 100


@dataclass(slots=True)
class _Ids:
    """The ids of one context."""

    holders: dict[int, set[tuple[str, int]]] = field(default_factory=dict)
    contents: dict[int, Content] = field(default_factory=dict)
    #: More than one where an import brought a schema under several.
    by_content: dict[Content, set[int]] = field(default_factory=dict)
    max_id: int = 0


class State:
    def __init__(self) -> None:
        self.configs: dict[str | None, Mapping[str, Any]] = {}
        self.modes: dict[str | None, str] = {}
        self._subjects: dict[str, dict[int, SchemaValue]] = {}
        self._ids: dict[str, _Ids] = {}
        self._referrers: dict[tuple[str, int], set[tuple[str, int]]] = {}
        self._guids: dict[str, set[tuple[str, int]]] = {}
        #: Records that were passed over, the last ones; and how many there were.
        self.passed_over: deque[str] = deque(maxlen=_REMEMBERED)
        self.passed_over_count = 0

    # Records in.

    def apply(self, entry: Entry) -> None:
        match entry:
            case Entry(SchemaKey(subject, version), None):
                self._remove(normal(subject), version)
            case Entry(SchemaKey(), SchemaValue() as value):
                self._put(replace(value, subject=normal(value.subject)))
            case Entry(DeleteSubjectKey(subject), FieldsValue(fields)):
                self._soft_delete(normal(subject), fields.get("version"))
            case Entry(ClearSubjectKey(subject), FieldsValue()):
                for version in tuple(self._subjects.get(normal(subject), ())):
                    self._remove(normal(subject), version)
            case Entry(ConfigKey(subject), value):
                self._set(self.configs, subject, value.fields if isinstance(value, FieldsValue) else None)
            case Entry(ModeKey(subject), value):
                mode = value.fields.get("mode") if isinstance(value, FieldsValue) else None
                self._set(self.modes, subject, mode if isinstance(mode, str) else None)
            case Entry(ContextKey(context), FieldsValue(fields)):
                ids = self._ids.setdefault(context, _Ids())
                if isinstance(fields.get(MAX_ID), int):
                    ids.max_id = max(ids.max_id, fields[MAX_ID])
            case Entry(UnknownKey(_, reason)):
                self._pass_over(reason)
            case Entry(NoopKey()) | _:
                pass

    def _set(self, table: dict[str | None, Any], subject: str | None, value: Any) -> None:
        name = None if subject is None else normal(subject)
        if value is None:
            table.pop(name, None)
        else:
            table[name] = value

    def _put(self, value: SchemaValue) -> None:
        ids = self._ids.setdefault(split(value.subject)[0], _Ids())
        ids.max_id = max(ids.max_id, value.id)
        content = content_of(value)
        place = (value.subject, value.version)
        others = ids.holders.get(value.id, set()) - {place}
        if others and ids.contents[value.id] != content:
            self._pass_over(f"{place} claims id {value.id}, which is that of another schema")
            return
        self._remove(*place)
        self._subjects.setdefault(value.subject, {})[value.version] = value
        ids.holders.setdefault(value.id, set()).add(place)
        ids.contents[value.id] = content
        ids.by_content.setdefault(content, set()).add(value.id)
        self._guids.setdefault(guid_of(value), set()).add(place)
        for target in self._targets(value):
            self._referrers.setdefault(target, set()).add(place)

    def _remove(self, subject: str, version: int) -> None:
        versions = self._subjects.get(subject, {})
        value = versions.pop(version, None)
        if value is None:
            return
        if not versions:
            del self._subjects[subject]
        place = (subject, version)
        ids = self._ids[split(subject)[0]]
        ids.holders[value.id].discard(place)
        if not ids.holders[value.id]:
            del ids.holders[value.id]
            _discard(ids.by_content, ids.contents.pop(value.id), value.id)
        _discard(self._guids, guid_of(value), place)
        for target in self._targets(value):
            _discard(self._referrers, target, place)

    def _soft_delete(self, subject: str, until: Any) -> None:
        if not isinstance(until, int):
            self._pass_over(f"a deletion of {subject!r} does not say up to which version")
            return
        versions = self._subjects.get(subject, {})
        for version, value in versions.items():
            if version <= until:
                versions[version] = replace(value, deleted=True)

    def _targets(self, value: SchemaValue) -> Iterator[tuple[str, int]]:
        for reference in value.references:
            yield within(value.subject, reference.subject), reference.version

    def _pass_over(self, reason: str) -> None:
        self.passed_over_count += 1
        self.passed_over.append(reason)

    # Subjects and versions.

    def has(self, subject: str, *, deleted: bool = False) -> bool:
        """Whether a subject has any version; ``deleted`` counts those that were deleted softly."""
        return any(deleted or not value.deleted for value in self._subjects.get(subject, {}).values())

    def versions(self, subject: str, *, deleted: bool = False) -> list[SchemaValue]:
        """The versions of a subject in their order, none if there are none."""
        found = self._subjects.get(subject, {})
        return [found[number] for number in sorted(found) if deleted or not found[number].deleted]

    def version(self, subject: str, number: int, *, deleted: bool = False) -> SchemaValue:
        """One version, -1 for the latest; 40401 or 40402 when it is not there."""
        found = self.versions(subject, deleted=deleted)
        if not found:
            raise subject_not_found(subject)
        if number == LATEST:
            return found[-1]
        value = self._subjects[subject].get(number)
        if value is None or (value.deleted and not deleted):
            raise version_not_found(number)
        return value

    def next_version(self, subject: str) -> int:
        return max(self._subjects.get(subject, {0: None})) + 1

    def subjects(self, prefix: str = "", *, deleted: bool = False, deleted_only: bool = False) -> list[str]:
        """Names that begin so, in one context; ``:*:`` looks into all of them."""
        found = (name for name in self._subjects if _begins(name, prefix))
        if deleted_only:
            return sorted(name for name in found if not self.has(name))
        return sorted(name for name in found if self.has(name, deleted=deleted))

    def schemas(self, prefix: str, *, deleted: bool, latest_only: bool) -> Iterator[SchemaValue]:
        for subject in self.subjects(prefix, deleted=deleted):
            found = self.versions(subject, deleted=deleted)
            yield from found[-1:] if latest_only else found

    def contexts(self) -> list[str]:
        return sorted({DEFAULT_CONTEXT, *self._ids})

    # Ids.

    def id_of(self, context: str, content: Content) -> int | None:
        """The id of a schema in a context; the lowest where an import gave it several."""
        ids = self._ids.get(context)
        return None if ids is None else min(ids.by_content.get(content, ()), default=None)

    def content_of_id(self, context: str, schema_id: int) -> Content | None:
        ids = self._ids.get(context)
        return None if ids is None else ids.contents.get(schema_id)

    def max_id(self, context: str) -> int:
        ids = self._ids.get(context)
        return 0 if ids is None else ids.max_id

    def next_id(self, context: str) -> int:
        return self.max_id(context) + 1

    def with_id(self, context: str, schema_id: int) -> list[SchemaValue]:
        """The versions that have an id, by subject and version."""
        ids = self._ids.get(context)
        users = set() if ids is None else ids.holders.get(schema_id, set())
        return self._values(users, deleted=True)

    def with_guid(self, guid: str) -> list[SchemaValue]:
        return self._values(self._guids.get(guid, ()), deleted=True)

    def referrers(self, subject: str, version: int, *, deleted: bool = False) -> list[SchemaValue]:
        """The versions that refer to this one."""
        return self._values(self._referrers.get((subject, version), ()), deleted)

    def _values(self, places: Iterable[tuple[str, int]], deleted: bool) -> list[SchemaValue]:
        found = [self._subjects[subject][version] for subject, version in sorted(places)]
        return [value for value in found if deleted or not value.deleted]

    # Configs and modes: of the subject, of its context, of all.

    def effective_config(self, subject: str | None) -> dict[str, Any]:
        """What counts for a subject: each setting from the nearest place that has it."""
        found: dict[str, Any] = {}
        for place in _places(subject):
            found = {**self.configs.get(place, {}), **found}
        return found

    def effective_mode(self, subject: str | None) -> str:
        if self.modes.get(None) == "READONLY_OVERRIDE":
            return "READONLY_OVERRIDE"
        return next((self.modes[place] for place in _places(subject) if place in self.modes), "READWRITE")


def _discard(table: dict[_K, set[_V]], name: _K, member: _V) -> None:
    """Takes a member out, and the set with the last one."""
    members = table.get(name, set())
    members.discard(member)
    if not members:
        table.pop(name, None)


def _places(subject: str | None) -> list[str | None]:
    if subject is None:
        return [None]
    context = split(subject)[0]
    around = [] if context == DEFAULT_CONTEXT else [qualified(context, "")]
    return list(dict.fromkeys([subject, *around, None]))


def _begins(name: str, prefix: str) -> bool:
    if prefix.startswith(ALL_CONTEXTS):
        return split(name)[1].startswith(prefix[len(ALL_CONTEXTS) :])
    context, beginning = split(prefix)
    own_context, own_name = split(name)
    return own_context == context and own_name.startswith(beginning)


def content(
    schema_type: str, schema: str, references: Iterable[Reference], metadata: Any, rule_set: Any
) -> Content:
    extras = canonical(metadata_form(metadata)), canonical(rule_set_form(rule_set))
    return schema_type, schema, tuple(references), *extras


def content_of(value: SchemaValue) -> Content:
    return content(value.schema_type, value.schema, value.references, value.metadata, value.rule_set)


def guid_of(value: SchemaValue) -> str:
    """The id of a schema that is the same in every registry: its record's, else a hash of its content.

    Confluent hashes the text first, and so do we: without references, metadata and rules the two agree.
    """
    if value.guid is not None:
        return value.guid
    digest = hashlib.md5(value.schema.encode("utf-8", "surrogatepass"), usedforsecurity=False)
    for reference in value.references:
        digest.update(f"{reference.name}{reference.subject}{reference.version}".encode("utf-8", "replace"))
    for extra in content_of(value)[3:]:
        if extra:
            digest.update(b"\x01" + extra.encode())
    return str(uuid.UUID(bytes=digest.digest()))
