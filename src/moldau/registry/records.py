"""The records of the ``_schemas`` topic, in the format of Confluent's registry: JSON keys, JSON values.

    entry = read(key, value)          # an Entry, whatever the bytes are
    key, value = write(entry)         # the bytes, with the fields of a key in Confluent's order

The topic is compacted, so two registries that share it have to write the same bytes for the same key. A value
of None takes back what an earlier record of the key said.

Invariant: pure. Reading never raises: a key of a kind that is not known, or bytes that are no record at
all, become an ``Entry`` with an ``UnknownKey`` that keeps them as they are. Fields of a value that are not
known are kept in ``more`` and written again.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from moldau.registry.schemas import Reference

Json: TypeAlias = Any

AVRO = "AVRO"
TENANT = "default"


@dataclass(frozen=True, slots=True)
class SchemaKey:
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """The subject is None for the setting of all, ``:.context:`` for that of a context."""

    subject: str | None


@dataclass(frozen=True, slots=True)
class ModeKey:
    subject: str | None


@dataclass(frozen=True, slots=True)
class DeleteSubjectKey:
    subject: str


@dataclass(frozen=True, slots=True)
class ClearSubjectKey:
    subject: str


@dataclass(frozen=True, slots=True)
class ContextKey:
    context: str
    tenant: str = TENANT


@dataclass(frozen=True, slots=True)
class NoopKey:
    pass


@dataclass(frozen=True, slots=True)
class UnknownKey:
    """What could not be read, and why."""

    data: bytes | None
    reason: str


Key: TypeAlias = (
    SchemaKey | ConfigKey | ModeKey | DeleteSubjectKey | ClearSubjectKey | ContextKey | NoopKey | UnknownKey
)


@dataclass(frozen=True, slots=True)
class SchemaValue:
    """One version of a subject. ``metadata`` and ``rule_set`` are kept as they came."""

    subject: str
    version: int
    id: int
    schema: str
    schema_type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: Json = None
    rule_set: Json = None
    deleted: bool = False
    guid: str | None = None
    #: When the record was written, in milliseconds; from the record itself where the value has none.
    timestamp_ms: int | None = None
    more: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FieldsValue:
    """The value of every other kind of record: its fields."""

    fields: Mapping[str, Json]


Value: TypeAlias = SchemaValue | FieldsValue | None


@dataclass(frozen=True, slots=True)
class Entry:
    key: Key
    value: Value = None


class _Unreadable(ValueError):
    """Why bytes are no record."""


# Reading ----------------------------------------------------------------------------------------------------


def read(key: bytes | None, value: bytes | None, timestamp_ms: int | None = None) -> Entry:
    """The entry that a record stands for; what is no entry of ours has an ``UnknownKey``."""
    try:
        known = _read_key(_object(key, "key"))
        if value is None or isinstance(known, NoopKey):
            return Entry(known)
        fields = _object(value, "value")
        if isinstance(known, SchemaKey):
            return Entry(known, _read_schema(fields, known, timestamp_ms))
        return Entry(known, FieldsValue(fields))
    except _Unreadable as error:
        return Entry(UnknownKey(key, str(error)))


def _object(data: bytes | None, what: str) -> dict[str, Json]:
    if data is None:
        raise _Unreadable(f"the record has no {what}")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _Unreadable(f"the {what} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise _Unreadable(f"the {what} is no JSON object")
    return found


def _read_key(fields: dict[str, Json]) -> Key:
    kind = fields.get("keytype")
    match kind:
        case "SCHEMA":
            return SchemaKey(_text(fields, "subject"), _number(fields, "version", 1))
        case "CONFIG":
            return ConfigKey(_text_or_none(fields, "subject"))
        case "MODE":
            return ModeKey(_text_or_none(fields, "subject"))
        case "DELETE_SUBJECT":
            return DeleteSubjectKey(_text(fields, "subject"))
        case "CLEAR_SUBJECT":
            return ClearSubjectKey(_text(fields, "subject"))
        case "CONTEXT":
            return ContextKey(_text(fields, "context"), _text_or_none(fields, "tenant") or TENANT)
        case "NOOP":
            return NoopKey()
    raise _Unreadable(f"the key is of a kind that is not known: {kind!r}")


#: The fields of a schema's value that have a place of their own.
_SCHEMA_FIELDS = frozenset(
    {
        *("subject", "version", "id", "guid", "schemaType", "references", "metadata"),
        *("ruleSet", "schema", "deleted", "ts", "offset"),
    }
)


def _read_schema(fields: dict[str, Json], key: SchemaKey, timestamp_ms: int | None) -> SchemaValue:
    stamp = fields.get("ts")
    guid = fields.get("guid")
    references = fields.get("references")
    return SchemaValue(
        subject=key.subject,
        version=key.version,
        id=_number(fields, "id", 0),
        schema=_text(fields, "schema"),
        schema_type=_text_or_none(fields, "schemaType") or AVRO,
        references=() if references is None else read_references(references),
        metadata=fields.get("metadata"),
        rule_set=fields.get("ruleSet"),
        deleted=fields.get("deleted") is True,
        guid=guid if isinstance(guid, str) else None,
        timestamp_ms=stamp if isinstance(stamp, int) else timestamp_ms,
        more={name: fields[name] for name in fields if name not in _SCHEMA_FIELDS},
    )


def read_references(found: Json) -> tuple[Reference, ...]:
    """References from JSON, of a record or of a request; ValueError when they are none."""
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise _Unreadable("references are a list of objects with name, subject and version")
    return tuple(
        Reference(_text(each, "name"), _text(each, "subject"), _number(each, "version", -1)) for each in found
    )


def _text(fields: dict[str, Json], name: str) -> str:
    found = fields.get(name)
    if not isinstance(found, str):
        raise _Unreadable(f"{name!r} is no text")
    return found


def _text_or_none(fields: dict[str, Json], name: str) -> str | None:
    return None if fields.get(name) is None else _text(fields, name)


def _number(fields: dict[str, Json], name: str, least: int) -> int:
    found = fields.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or not least <= found < 1 << 31:
        raise _Unreadable(f"{name!r} is no number from {least} to {(1 << 31) - 1}")
    return found


# Writing ----------------------------------------------------------------------------------------------------


def write(entry: Entry) -> tuple[bytes, bytes | None]:
    """Key and value as bytes."""
    value = entry.value
    if value is None:
        return _dump(key_json(entry.key)), None
    fields = schema_json(value) if isinstance(value, SchemaValue) else dict(value.fields)
    return _dump(key_json(entry.key)), _dump(fields)


def key_json(key: Key) -> dict[str, Json]:
    match key:
        case SchemaKey(subject, version):
            return {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
        case ConfigKey(subject):
            return {"keytype": "CONFIG", "subject": subject, "magic": 0}
        case ModeKey(subject):
            return {"keytype": "MODE", "subject": subject, "magic": 0}
        case DeleteSubjectKey(subject):
            return {"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0}
        case ClearSubjectKey(subject):
            return {"keytype": "CLEAR_SUBJECT", "subject": subject, "magic": 0}
        case ContextKey(context, tenant):
            return {"keytype": "CONTEXT", "tenant": tenant, "context": context, "magic": 0}
        case NoopKey():
            return {"keytype": "NOOP", "magic": 0}
    raise AssertionError(f"{key} is never written")


def schema_json(value: SchemaValue) -> dict[str, Json]:
    """The value of a version, with no field that is empty; ``schemaType`` is left out for Avro."""
    fields: dict[str, Json] = {"subject": value.subject, "version": value.version, "id": value.id}
    if value.guid is not None:
        fields["guid"] = value.guid
    if value.schema_type != AVRO:
        fields["schemaType"] = value.schema_type
    if value.references:
        fields["references"] = references_json(value.references)
    if value.metadata is not None:
        fields["metadata"] = value.metadata
    if value.rule_set is not None:
        fields["ruleSet"] = value.rule_set
    fields["schema"] = value.schema
    fields["deleted"] = value.deleted
    if value.timestamp_ms is not None:
        fields["ts"] = value.timestamp_ms
    return fields | dict(value.more)


def references_json(references: Iterable[Reference]) -> list[dict[str, Json]]:
    return [{"name": each.name, "subject": each.subject, "version": each.version} for each in references]


def _dump(fields: dict[str, Json]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
