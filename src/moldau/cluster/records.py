"""The records of the metadata log: one type for every kind of change, and its JSON form.

Invariant: a record states the new value, not how it was decided, so that replaying the log needs no rules.
The JSON form (type name, version, fields) is kept for ever: a new field means a new version of its record,
and a record that this release cannot read is refused, never skipped.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from moldau.base.names import Uuid, format_uuid, parse_uuid

NO_LEADER = -1


class MetadataError(Exception):
    """The cluster's metadata cannot be used; the message says what the operator can do."""


class UnreadableRecord(MetadataError):
    """A record of the metadata log that is damaged, or that this release does not know."""


class ResourceType(IntEnum):
    """What a config belongs to, with the numbers that the protocol uses."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Endpoint(NamedTuple):
    """One address of a broker: the listener's name, host and port, and the security protocol spoken there."""

    name: str
    host: str
    port: int
    security_protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class ClusterCreated(NamedTuple):
    cluster_id: str


class FeatureLevel(NamedTuple):
    """A finalized feature; level 0 removes it."""

    name: str
    level: int


class ControllerElected(NamedTuple):
    broker_id: int
    controller_epoch: int


class BrokerRegistered(NamedTuple):
    """A broker process has started: it is live until it is fenced."""

    broker_id: int
    broker_epoch: int
    incarnation_id: Uuid
    listeners: tuple[Endpoint, ...]
    rack: str | None = None
    log_directories: tuple[Uuid, ...] = ()


class BrokerFenced(NamedTuple):
    """A broker is not live any more; it stays registered and keeps its replicas."""

    broker_id: int


class BrokerUnregistered(NamedTuple):
    broker_id: int


class TopicCreated(NamedTuple):
    topic_id: Uuid
    name: str


class PartitionChanged(NamedTuple):
    """The whole state of one partition; its first record creates it, in the order 0, 1, 2, …"""

    topic_id: Uuid
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    #: The log directory of each replica, in the order of ``replicas``; empty while none is assigned.
    directories: tuple[Uuid, ...] = ()


class TopicDeleted(NamedTuple):
    """Deletes the topic with its partitions and its configs."""

    topic_id: Uuid


class ConfigChanged(NamedTuple):
    """Sets one override, or removes it when the value is None."""

    resource_type: ResourceType
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)  # a NamedTuple cannot have a field ``count``
class ProducerIdsAllocated:
    """These ids belong to that broker and are never given out again."""

    broker_id: int
    first_id: int
    count: int


Record: TypeAlias = (
    ClusterCreated
    | FeatureLevel
    | ControllerElected
    | BrokerRegistered
    | BrokerFenced
    | BrokerUnregistered
    | TopicCreated
    | PartitionChanged
    | TopicDeleted
    | ConfigChanged
    | ProducerIdsAllocated
)


# --- The JSON form ---------------------------------------------------------------------------------------


class _Field(NamedTuple):
    """How one kind of value is written to JSON and read back; None writes it as it is."""

    dump: Callable[[Any], Any] | None
    load: Callable[[Any], Any]


def _load_int(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _load_str(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"{value!r} is not a text")
    return value


def _load_optional_str(value: Any) -> str | None:
    return None if value is None else _load_str(value)


def _load_ints(value: Any) -> tuple[int, ...]:
    if type(value) is not list:
        raise ValueError(f"{value!r} is not a list of whole numbers")
    for item in value:
        if type(item) is not int:
            raise ValueError(f"{item!r} is not a whole number")
    return tuple(value)


# The partitions of a topic follow each other and all have its id: caching the last few halves the work.
_dump_uuid = lru_cache(maxsize=64)(format_uuid)


@lru_cache(maxsize=64)
def _load_uuid(value: Any) -> Uuid:
    return parse_uuid(_load_str(value))


def _dump_uuids(values: tuple[Uuid, ...]) -> list[str]:
    return [format_uuid(value) for value in values]


def _load_uuids(value: Any) -> tuple[Uuid, ...]:
    if type(value) is not list:
        raise ValueError(f"{value!r} is not a list of ids")
    return tuple([_load_uuid(item) for item in value])


def _dump_listeners(listeners: tuple[Endpoint, ...]) -> list[list[Any]]:
    return [[each.name, each.host, each.port, each.security_protocol] for each in listeners]


def _load_listeners(value: Any) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(_load_str(name), _load_str(host), _load_int(port), _load_str(protocol))
        for name, host, port, protocol in value
    )


def _dump_resource_type(value: ResourceType) -> str:
    return value.name


def _load_resource_type(value: Any) -> ResourceType:
    try:
        return ResourceType[value]
    except KeyError:
        raise ValueError(f"{value!r} is not a type of resource") from None


_INT = _Field(None, _load_int)
_STR = _Field(None, _load_str)
_OPTIONAL_STR = _Field(None, _load_optional_str)
_INTS = _Field(list, _load_ints)
_UUID = _Field(_dump_uuid, _load_uuid)
_UUIDS = _Field(_dump_uuids, _load_uuids)
_LISTENERS = _Field(_dump_listeners, _load_listeners)
_RESOURCE_TYPE = _Field(_dump_resource_type, _load_resource_type)


class _Form(NamedTuple):
    """A record's name on disk, its newest version, and its fields in their order."""

    record: type[Any]
    version: int
    fields: tuple[tuple[str, _Field], ...]

    @property
    def name(self) -> str:
        return self.record.__name__

    @property
    def loads(self) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
        return tuple((name, field.load) for name, field in self.fields)


_FORMS = (
    _Form(ClusterCreated, 1, (("cluster_id", _STR),)),
    _Form(FeatureLevel, 1, (("name", _STR), ("level", _INT))),
    _Form(ControllerElected, 1, (("broker_id", _INT), ("controller_epoch", _INT))),
    _Form(
        BrokerRegistered,
        1,
        (
            ("broker_id", _INT),
            ("broker_epoch", _INT),
            ("incarnation_id", _UUID),
            ("listeners", _LISTENERS),
            ("rack", _OPTIONAL_STR),
            ("log_directories", _UUIDS),
        ),
    ),
    _Form(BrokerFenced, 1, (("broker_id", _INT),)),
    _Form(BrokerUnregistered, 1, (("broker_id", _INT),)),
    _Form(TopicCreated, 1, (("topic_id", _UUID), ("name", _STR))),
    _Form(
        PartitionChanged,
        1,
        (
            ("topic_id", _UUID),
            ("partition", _INT),
            ("replicas", _INTS),
            ("isr", _INTS),
            ("leader", _INT),
            ("leader_epoch", _INT),
            ("partition_epoch", _INT),
            ("directories", _UUIDS),
        ),
    ),
    _Form(TopicDeleted, 1, (("topic_id", _UUID),)),
    _Form(
        ConfigChanged,
        1,
        (
            ("resource_type", _RESOURCE_TYPE),
            ("resource_name", _STR),
            ("name", _STR),
            ("value", _OPTIONAL_STR),
        ),
    ),
    _Form(ProducerIdsAllocated, 1, (("broker_id", _INT), ("first_id", _INT), ("count", _INT))),
)
_BY_CLASS: dict[type[Any], _Form] = {form.record: form for form in _FORMS}
#: What reading a record needs, as plain tuples: a broker reads many thousands of records when it starts.
_BY_NAME = {form.name: (form.record, form.version, form.loads) for form in _FORMS}

_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))


def _to_json(record: Record) -> dict[str, Any]:
    form = _BY_CLASS[type(record)]
    value: dict[str, Any] = {"type": form.name, "version": form.version}
    for name, field in form.fields:
        item = getattr(record, name)
        value[name] = item if field.dump is None else field.dump(item)
    return value


def _from_json(value: Any) -> Record:
    try:
        name, version = value["type"], value["version"]
    except (KeyError, TypeError, IndexError):
        raise UnreadableRecord(
            f"A metadata record has neither type nor version: {_shortened(value)}. The metadata is damaged: "
            "restore it from a backup."
        ) from None
    form = _BY_NAME.get(name) if isinstance(name, str) else None
    if form is None or type(version) is not int or version > form[1]:
        raise UnreadableRecord(
            f"This release does not know the metadata record {name!r} of version {version!r}, so a newer "
            "release has written it: start the broker with that release or a later one."
        )
    try:
        record: Record = form[0](*[load(value[key]) for key, load in form[2]])
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableRecord(
            f"A metadata record of type {name} is damaged ({error}): {_shortened(value)}. Restore the "
            "metadata from a backup."
        ) from None
    return record


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def encode(record: Record) -> str:
    """One record as a JSON object on one line."""
    return _ENCODER.encode(_to_json(record))


def encode_all(records: Iterable[Record]) -> str:
    """Many records as one JSON array: several times faster than one by one."""
    return _ENCODER.encode([_to_json(record) for record in records])


def decode(text: str) -> Record:
    """The reverse of ``encode``; UnreadableRecord when this release cannot read it."""
    return _from_json(_parsed(text))


def decode_all(text: str) -> list[Record]:
    """The reverse of ``encode_all``."""
    values = _parsed(text)
    if not isinstance(values, list):
        raise UnreadableRecord(
            f"The metadata is damaged, {_shortened(values)} is no list of records: restore it from a backup."
        )
    return [_from_json(value) for value in values]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableRecord(
            f"A metadata record is not JSON ({error}): the metadata is damaged, restore it from a backup."
        ) from None
