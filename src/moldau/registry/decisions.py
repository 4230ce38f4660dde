"""What a request changes: a look at the state, and the entries to write.

    change = Decisions(state, parser).register("orders-value", wanted)
    change.entries     # to be written as one; none when nothing has to change
    change.answer      # what the client gets when they are written

Invariant: pure. Nothing here changes the state: that is ``State.apply``'s, once the entries are in the log.
A ``RegistryProblem`` means that nothing is to be written. A new id is one above all that were ever given in
the context, and a schema that the context knows already keeps the id that it has.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from moldau.registry import errors
from moldau.registry.data_contracts import merged_metadata, merged_rule_set, metadata_form, rule_set_form
from moldau.registry.parsing import Parser, Task
from moldau.registry.records import (
    AVRO,
    ConfigKey,
    ContextKey,
    DeleteSubjectKey,
    Entry,
    FieldsValue,
    ModeKey,
    SchemaKey,
    SchemaValue,
)
from moldau.registry.schemas import Reference
from moldau.registry.state import LATEST, MAX_ID, State, content, content_of, guid_of
from moldau.registry.subjects import check, split, within

MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")
#: Modes in which clients cannot change anything.
_CLOSED = frozenset({"READONLY", "READONLY_OVERRIDE", "FORWARD"})
DEFAULT_LEVEL = "BACKWARD"
#: What a config may contain beside the level, and what kind of thing each one is.
CONFIG_FIELDS: dict[str, type] = {
    "alias": str,
    "normalize": bool,
    "validateFields": bool,
    "validateRules": bool,
    "compatibilityGroup": str,
    "compatibilityPolicy": str,
    "defaultMetadata": dict,
    "overrideMetadata": dict,
    "defaultRuleSet": dict,
    "overrideRuleSet": dict,
}


@dataclass(frozen=True, slots=True)
class SchemaToRegister:
    """A schema as a client gives it; an id and a version only where it is imported."""

    schema: str
    schema_type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: Any = None
    rule_set: Any = None
    id: int | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    answer: Any
    entries: tuple[Entry, ...] = ()


class Decisions:
    def __init__(self, state: State, parser: Parser) -> None:
        self.state = state
        self.parser = parser

    # Schemas.

    def register(self, subject: str, wanted: SchemaToRegister, *, normalize: bool = False) -> Change:
        """The answer is the version under which the schema is or will be."""
        subject = check(subject)
        mode = self.state.effective_mode(subject)
        wanted = self._prepared(subject, wanted, normalize, new=wanted.id is None)
        found = self._same(subject, wanted)
        if found is not None and wanted.id in (None, found.id):
            return Change(found)
        _check_open(subject, mode)
        importing = mode == "IMPORT"
        if importing != (wanted.id is not None):
            said = "is in import mode: a schema needs its id" if importing else "is not in import mode"
            raise errors.not_permitted(f"Subject {subject} {said}")
        if importing:
            return self._added(subject, wanted, self._import_version(subject, wanted))
        wanted = self._completed(subject, wanted)
        found = self._same(subject, wanted)
        if found is not None:
            return Change(found)
        version = self.state.next_version(subject)
        if wanted.version is not None and wanted.version not in (0, LATEST, version):
            raise errors.invalid_schema("Version is not one more than previous version")
        messages = self.incompatibilities(subject, wanted)
        if messages:
            raise errors.incompatible(subject, messages)
        return self._added(subject, wanted, version)

    def work(self, subject: str, wanted: SchemaToRegister) -> Task | None:
        """The long part of looking at a schema (``Parser.work``); None when there is none."""
        try:
            references = tuple(self._settled(subject, each) for each in wanted.references)
        except errors.RegistryProblem:
            return None
        return self.parser.work(self.state, subject, wanted.schema_type, wanted.schema, references)

    def look_up(
        self, subject: str, wanted: SchemaToRegister, *, normalize: bool = False, deleted: bool = False
    ) -> SchemaValue:
        """The version that is this schema; 40401 for the subject, 40403 for the schema.

        The one that is the same in everything comes first; after that metadata and rules count only where
        the client gives them.
        """
        if not self.state.has(subject, deleted=deleted):
            raise errors.subject_not_found(subject)
        wanted = self._prepared(subject, wanted, normalize, new=False)
        versions = self.state.versions(subject, deleted=deleted)[::-1]
        sought = _content(wanted)
        for value in versions:
            if content_of(value) == sought:
                return value
        for value in versions:
            alike = (value.schema_type, value.references) == (wanted.schema_type, wanted.references)
            extras = zip(sought[3:], content_of(value)[3:], strict=True)
            if not alike or any(given and given != stored for given, stored in extras):
                continue
            if value.schema == wanted.schema or self._reads_as(subject, value, wanted, normalize):
                return value
        raise errors.schema_not_found()

    def incompatibilities(
        self,
        subject: str,
        wanted: SchemaToRegister,
        against: SchemaValue | None = None,
        *,
        normalize: bool = False,
    ) -> list[str]:
        """What the subject's level has against a schema, or what one version has against it."""
        level, wanted, previous = self._compared(subject, wanted, against, normalize)
        found = self.parser.incompatibilities(self.state, subject, level, wanted, previous)
        if not found:
            return []
        validates = self.state.effective_config(subject).get("validateFields") is True
        return [*found, f"{{validateFields: '{str(validates).lower()}', compatibility: '{level}'}}"]

    def comparison(
        self,
        subject: str,
        wanted: SchemaToRegister,
        against: SchemaValue | None = None,
        *,
        normalize: bool = False,
    ) -> Task | None:
        """The long part of ``incompatibilities`` (``Parser.comparison``); None when there is none."""
        try:
            level, wanted, previous = self._compared(subject, wanted, against, normalize)
            return self.parser.comparison(self.state, subject, level, wanted, previous)
        except errors.RegistryProblem:
            return None  # the decision says what is wrong

    def previous(self, subject: str, against: SchemaValue | None = None) -> list[SchemaValue]:
        """The versions that a schema may have to be compared with."""
        if against is not None:
            return [against]
        level = self.state.effective_config(subject).get("compatibilityLevel", DEFAULT_LEVEL)
        versions = self.state.versions(subject)
        return versions if level.endswith("_TRANSITIVE") else versions[-1:]

    def _compared(
        self, subject: str, wanted: SchemaToRegister, against: SchemaValue | None, normalize: bool
    ) -> tuple[str, SchemaToRegister, list[SchemaValue]]:
        """The level, the schema as it would be kept, and what it is compared with."""
        config = self.state.effective_config(subject)
        level = config.get("compatibilityLevel", DEFAULT_LEVEL)
        wanted = self._prepared(subject, wanted, normalize, new=True)
        previous = [against] if against is not None else self.state.versions(subject)
        group = config.get("compatibilityGroup")
        if group is not None:
            wanted = self._completed(subject, wanted)
            mine = _property(wanted.metadata, group)
            previous = [value for value in previous if _property(value.metadata, group) == mine]
        return level, wanted, previous

    def delete_subject(self, subject: str, *, permanent: bool) -> Change:
        """The answer is the versions that are gone."""
        state = self.state
        if not state.has(subject, deleted=True):
            raise errors.subject_not_found(subject)
        if not permanent and not state.has(subject):
            raise errors.subject_soft_deleted(subject)
        if permanent and state.has(subject):
            raise errors.subject_not_soft_deleted(subject)
        _check_open(subject, state.effective_mode(subject))
        gone = state.versions(subject, deleted=permanent)
        self._check_references(gone, permanent)
        numbers = [value.version for value in gone]
        if permanent:
            entries = [self._id_mark(subject), *(Entry(SchemaKey(subject, number)) for number in numbers)]
            return Change(numbers, (*entries, Entry(DeleteSubjectKey(subject))))
        mark = FieldsValue({"subject": subject, "version": numbers[-1]})
        return Change(numbers, (Entry(DeleteSubjectKey(subject), mark), *self._settings_gone(subject)))

    def delete_version(self, subject: str, number: int, *, permanent: bool) -> Change:
        """The answer is the version that is gone."""
        state = self.state
        if not state.has(subject, deleted=True):
            raise errors.subject_not_found(subject)
        value = state.version(subject, number, deleted=number != LATEST)
        if value.deleted and not permanent:
            raise errors.version_soft_deleted(subject, value.version)
        if permanent and not value.deleted:
            raise errors.version_not_soft_deleted(subject, value.version)
        _check_open(subject, state.effective_mode(subject))
        self._check_references([value], permanent)
        key = SchemaKey(subject, value.version)
        if permanent:
            return Change(value.version, (self._id_mark(subject), Entry(key)))
        entries = [Entry(key, replace(value, deleted=True))]
        if len(state.versions(subject)) == 1:
            entries += self._settings_gone(subject)
        return Change(value.version, tuple(entries))

    # Configs and modes; the subject is None for all, ``:.context:`` for a context.

    def set_config(self, subject: str | None, fields: Mapping[str, Any]) -> Change:
        """Changes what is given and leaves the rest; the answer is what was given."""
        _check_open(subject, self.state.effective_mode(subject))
        level = fields.get("compatibility", fields.get("compatibilityLevel"))
        given = {name: fields[name] for name in CONFIG_FIELDS if fields.get(name) is not None}
        for name, value in given.items():
            if not isinstance(value, CONFIG_FIELDS[name]):
                raise errors.unprocessable(f"{name} is no {CONFIG_FIELDS[name].__name__}")
        if level is not None:
            given = {"compatibilityLevel": self.parser.level(level), **given}
        if not given:
            raise errors.invalid_level()
        kept = {**self.state.configs.get(subject, {}), **given}
        if subject is not None:
            kept = {"subject": subject, **kept}
        answer = {("compatibility" if k == "compatibilityLevel" else k): v for k, v in given.items()}
        return Change(answer, (Entry(ConfigKey(subject), FieldsValue(kept)),))

    def delete_config(self, subject: str | None) -> Change:
        _check_open(subject, self.state.effective_mode(subject))
        stored = self.state.configs.get(subject)
        if stored is None and subject is not None:
            raise errors.subject_not_found(subject)
        return Change(config_answer(stored or {}), (Entry(ConfigKey(subject)),))

    def set_mode(self, subject: str | None, mode: Any, *, force: bool = False) -> Change:
        if not isinstance(mode, str) or mode.upper() not in MODES:
            raise errors.invalid_mode()
        mode = mode.upper()
        if mode == "IMPORT" and not force and self.state.effective_mode(subject) != "IMPORT":
            prefix = "" if subject is None else subject
            taken = self.state.subjects(prefix) if subject is None or subject.endswith(":") else []
            if taken or (subject is not None and self.state.has(subject)):
                raise errors.not_permitted("Cannot import since found existing subjects")
        fields = {"mode": mode} if subject is None else {"subject": subject, "mode": mode}
        return Change({"mode": mode}, (Entry(ModeKey(subject), FieldsValue(fields)),))

    def delete_mode(self, subject: str | None) -> Change:
        stored = self.state.modes.get(subject)
        if stored is None and subject is not None:
            raise errors.subject_not_found(subject)
        return Change({"mode": stored or "READWRITE"}, (Entry(ModeKey(subject)),))

    # Parts of a decision.

    def _prepared(
        self, subject: str, wanted: SchemaToRegister, normalize: bool, *, new: bool
    ) -> SchemaToRegister:
        """References with real versions, and text, metadata and rules in the form in which they are kept."""
        references = tuple(self._settled(subject, each) for each in wanted.references)
        normalize = normalize or self.state.effective_config(subject).get("normalize") is True
        parsed = self.parser.parse(
            self.state, subject, wanted.schema_type, wanted.schema, references, new=new
        )
        return replace(
            wanted,
            schema=parsed.normalized if normalize else parsed.text,
            schema_type=parsed.schema_type.value,
            references=references,
            metadata=metadata_form(wanted.metadata),
            rule_set=rule_set_form(wanted.rule_set),
        )

    def _settled(self, subject: str, reference: Reference) -> Reference:
        target = within(subject, reference.subject)
        try:
            value = self.state.version(target, reference.version)
        except errors.RegistryProblem as error:
            raise errors.reference_not_found(reference.name, reference.subject, reference.version) from error
        return replace(reference, version=value.version)

    def _same(self, subject: str, wanted: SchemaToRegister) -> SchemaValue | None:
        """The version that is this schema already, even if its text is formatted otherwise."""
        versions = self.state.versions(subject)
        sought = _content(wanted)
        for value in versions:
            if content_of(value) == sought:
                return value
        mark = self._fingerprint(subject, wanted)
        for value in versions:
            parsed = self.parser.of(self.state, value)
            extras = content_of(value)[3:] == sought[3:]
            if extras and parsed is not None and parsed.fingerprint == mark:
                return value
        return None

    def _fingerprint(self, subject: str, wanted: SchemaToRegister) -> bytes:
        parsed = self.parser.parse(
            self.state, subject, wanted.schema_type, wanted.schema, wanted.references, new=False
        )
        return parsed.fingerprint

    def _completed(self, subject: str, wanted: SchemaToRegister) -> SchemaToRegister:
        """With the metadata and rules that the version before and the config lend it."""
        config = self.state.effective_config(subject)
        before = self.state.versions(subject)[-1:]
        metadata, rule_set = wanted.metadata, wanted.rule_set
        if metadata is None:
            metadata = before[0].metadata if before else None
        if rule_set is None:
            rule_set = before[0].rule_set if before else None
        return replace(
            wanted,
            metadata=merged_metadata(config.get("defaultMetadata"), metadata, config.get("overrideMetadata")),
            rule_set=merged_rule_set(config.get("defaultRuleSet"), rule_set, config.get("overrideRuleSet")),
        )

    def _import_version(self, subject: str, wanted: SchemaToRegister) -> int:
        assert wanted.id is not None
        stored = self.state.content_of_id(split(subject)[0], wanted.id)
        if stored is not None and stored != _content(wanted):
            raise errors.not_permitted(f"Overwrite new schema with id {wanted.id} is not permitted.")
        if wanted.version is None or wanted.version <= 0:
            return self.state.next_version(subject)
        taken = [v for v in self.state.versions(subject, deleted=True) if v.version == wanted.version]
        if taken and content_of(taken[0]) != _content(wanted):
            raise errors.not_permitted(f"Version {wanted.version} of subject {subject} is another schema")
        return wanted.version

    def _added(self, subject: str, wanted: SchemaToRegister, version: int) -> Change:
        state, (context, _) = self.state, split(subject)
        schema_id = wanted.id
        if schema_id is None:
            known = state.id_of(context, _content(wanted))
            schema_id = state.next_id(context) if known is None else known
        value = SchemaValue(
            subject=subject,
            version=version,
            id=schema_id,
            schema=wanted.schema,
            schema_type=wanted.schema_type,
            references=wanted.references,
            metadata=wanted.metadata or None,
            rule_set=wanted.rule_set or None,
        )
        value = replace(value, guid=guid_of(value))
        entries = [Entry(SchemaKey(subject, version), value)]
        if context not in state.contexts():
            mark = FieldsValue({"tenant": ContextKey(context).tenant, "context": context})
            entries.insert(0, Entry(ContextKey(context), mark))
        # The same schema is back: what was deleted of it is not needed any more.
        entries += [
            Entry(SchemaKey(subject, old.version))
            for old in state.versions(subject, deleted=True)
            if old.deleted and old.version != version and content_of(old) == content_of(value)
        ]
        return Change(value, tuple(entries))

    def _reads_as(self, subject: str, value: SchemaValue, wanted: SchemaToRegister, normalize: bool) -> bool:
        parsed = self.parser.of(self.state, value)
        if parsed is None:
            return False
        if normalize and parsed.normalized == wanted.schema:
            return True
        return parsed.fingerprint == self._fingerprint(subject, wanted)

    def _check_references(self, gone: list[SchemaValue], permanent: bool) -> None:
        leaving = {(value.subject, value.version) for value in gone}
        for value in gone:
            others = self.state.referrers(value.subject, value.version, deleted=permanent)
            if any((other.subject, other.version) not in leaving for other in others):
                raise errors.reference_exists(value.subject, value.version)

    def _id_mark(self, subject: str) -> Entry:
        """Keeps the highest id when the records that have it are about to be deleted."""
        context = split(subject)[0]
        fields = {
            "tenant": ContextKey(context).tenant,
            "context": context,
            MAX_ID: self.state.max_id(context),
        }
        return Entry(ContextKey(context), FieldsValue(fields))

    def _settings_gone(self, subject: str) -> list[Entry]:
        """A subject without versions has no settings of its own."""
        entries: list[Entry] = []
        if subject in self.state.configs:
            entries.append(Entry(ConfigKey(subject)))
        if subject in self.state.modes:
            entries.append(Entry(ModeKey(subject)))
        return entries


def config_answer(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A config as GET and DELETE show it."""
    more = {name: fields[name] for name in CONFIG_FIELDS if name in fields}
    return {"compatibilityLevel": fields.get("compatibilityLevel", DEFAULT_LEVEL), **more}


def _content(wanted: SchemaToRegister) -> Any:
    return content(wanted.schema_type, wanted.schema, wanted.references, wanted.metadata, wanted.rule_set)


def _check_open(subject: str | None, mode: str) -> None:
    if mode in _CLOSED:
        what = "The registry" if subject is None else f"Subject {subject}"
        said = "forward" if mode == "FORWARD" else "read-only"
        raise errors.not_permitted(f"{what} is in {said} mode")


def _property(metadata: Any, name: str) -> Any:
    properties = metadata.get("properties") if isinstance(metadata, dict) else None
    return properties.get(name) if isinstance(properties, dict) else None
