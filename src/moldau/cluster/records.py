"""The records of the metadata log: one type for every kind of change, and its JSON form.

Invariant: a record states the new value, not how it was decided, so that replaying the log needs no rules.
The JSON form (type name, version, fields) is kept for ever: a new field means a new version of its record,
and a record that this release cannot read is refused, never skipped. A record is written in the lowest
version that holds all it says, so that an older release reads what it can.
"""

import base64
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from moldau.base.names import Uuid, format_uuid, parse_uuid
from moldau.security.acls import Acl
from moldau.security.delegation_tokens import DelegationToken
from moldau.security.principals import parse_principal
from moldau.security.quotas import QuotaEntity
from moldau.security.scram import ScramCredential, ScramMechanism

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


class BrokerShuttingDown(NamedTuple):
    """A live broker is about to stop: it serves on, but leads nothing more and is in sync with nobody."""

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
    #: While replicas are moved: the members of ``replicas`` that come, and those that leave.
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    #: Replicas that left the ISR while it was below its minimum, and so still have every committed record.
    elr: tuple[int, ...] = ()
    #: The leader that was lost last, while there is no other.
    last_known_elr: tuple[int, ...] = ()


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


class AclAdded(NamedTuple):
    acl: Acl


class AclRemoved(NamedTuple):
    acl: Acl


class ScramCredentialSet(NamedTuple):
    """What is kept of a user's password for one mechanism."""

    user: str
    credential: ScramCredential


class ScramCredentialRemoved(NamedTuple):
    user: str
    mechanism: ScramMechanism


class ClientQuotaSet(NamedTuple):
    """Sets one quota of an entity, or removes it when the value is None."""

    entity: QuotaEntity
    name: str
    value: float | None


class DelegationTokenSet(NamedTuple):
    token: DelegationToken


class DelegationTokenRemoved(NamedTuple):
    token_id: str


Record: TypeAlias = (
    ClusterCreated
    | FeatureLevel
    | ControllerElected
    | BrokerRegistered
    | BrokerFenced
    | BrokerShuttingDown
    | BrokerUnregistered
    | TopicCreated
    | PartitionChanged
    | TopicDeleted
    | ConfigChanged
    | ProducerIdsAllocated
    | AclAdded
    | AclRemoved
    | ScramCredentialSet
    | ScramCredentialRemoved
    | ClientQuotaSet
    | DelegationTokenSet
    | DelegationTokenRemoved
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


def _load_float(value: Any) -> float | None:
    if value is None or type(value) in (int, float):
        return value  # type: ignore[no-any-return]
    raise ValueError(f"{value!r} is not a number")


def _load_acl(value: Any) -> Acl:
    kind, name, pattern, principal, host, operation, permission = value
    numbers = [_load_int(each) for each in (kind, pattern, operation, permission)]
    return Acl(
        numbers[0],
        _load_str(name),
        numbers[1],
        _load_str(principal),
        _load_str(host),
        numbers[2],
        numbers[3],
    )


def _dump_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _load_bytes(value: Any) -> bytes:
    return base64.b64decode(_load_str(value), validate=True)


def _load_mechanism(value: Any) -> ScramMechanism:
    return ScramMechanism(_load_int(value))


def _dump_credential(credential: ScramCredential) -> list[Any]:
    keys = (credential.salt, credential.stored_key, credential.server_key)
    return [int(credential.mechanism), *map(_dump_bytes, keys), credential.iterations]


def _load_credential(value: Any) -> ScramCredential:
    mechanism, salt, stored_key, server_key, iterations = value
    keys = (_load_bytes(salt), _load_bytes(stored_key), _load_bytes(server_key))
    return ScramCredential(_load_mechanism(mechanism), *keys, _load_int(iterations))


def _load_entity(value: Any) -> QuotaEntity:
    return QuotaEntity(*(_load_optional_str(each) for each in value))


def _dump_token(token: DelegationToken) -> dict[str, Any]:
    return {
        **token._asdict(),
        "owner": str(token.owner),
        "requester": str(token.requester),
        "renewers": [str(each) for each in token.renewers],
    }


def _load_token(value: Any) -> DelegationToken:
    return DelegationToken(
        _load_str(value["token_id"]),
        parse_principal(value["owner"]),
        parse_principal(value["requester"]),
        tuple(parse_principal(each) for each in value["renewers"]),
        _load_int(value["issued_at_ms"]),
        _load_int(value["expires_at_ms"]),
        _load_int(value["max_at_ms"]),
    )


_INT = _Field(None, _load_int)
_ACL = _Field(list, _load_acl)
_CREDENTIAL = _Field(_dump_credential, _load_credential)
_MECHANISM = _Field(int, _load_mechanism)
_ENTITY = _Field(list, _load_entity)
_FLOAT = _Field(None, _load_float)
_TOKEN = _Field(_dump_token, _load_token)
_STR = _Field(None, _load_str)
_OPTIONAL_STR = _Field(None, _load_optional_str)
_INTS = _Field(list, _load_ints)
_UUID = _Field(_dump_uuid, _load_uuid)
_UUIDS = _Field(_dump_uuids, _load_uuids)
_LISTENERS = _Field(_dump_listeners, _load_listeners)
_RESOURCE_TYPE = _Field(_dump_resource_type, _load_resource_type)


class _Form(NamedTuple):
    """A record's name on disk, its newest version, and its fields in their order.

    The first ``first_fields`` fields are those of version 1; the others came with the newest version.
    """

    record: type[Any]
    version: int
    fields: tuple[tuple[str, _Field], ...]
    first_fields: int | None = None

    @property
    def name(self) -> str:
        return self.record.__name__

    def loads(self, version: int) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
        fields = self.fields if version == self.version else self.fields[: self.first_fields]
        return tuple((name, field.load) for name, field in fields)


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
    _Form(BrokerShuttingDown, 1, (("broker_id", _INT),)),
    _Form(BrokerUnregistered, 1, (("broker_id", _INT),)),
    _Form(TopicCreated, 1, (("topic_id", _UUID), ("name", _STR))),
    _Form(
        PartitionChanged,
        2,
        (
            ("topic_id", _UUID),
            ("partition", _INT),
            ("replicas", _INTS),
            ("isr", _INTS),
            ("leader", _INT),
            ("leader_epoch", _INT),
            ("partition_epoch", _INT),
            ("directories", _UUIDS),
            ("adding_replicas", _INTS),
            ("removing_replicas", _INTS),
            ("elr", _INTS),
            ("last_known_elr", _INTS),
        ),
        first_fields=8,
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
    _Form(AclAdded, 1, (("acl", _ACL),)),
    _Form(AclRemoved, 1, (("acl", _ACL),)),
    _Form(ScramCredentialSet, 1, (("user", _STR), ("credential", _CREDENTIAL))),
    _Form(ScramCredentialRemoved, 1, (("user", _STR), ("mechanism", _MECHANISM))),
    _Form(ClientQuotaSet, 1, (("entity", _ENTITY), ("name", _STR), ("value", _FLOAT))),
    _Form(DelegationTokenSet, 1, (("token", _TOKEN),)),
    _Form(DelegationTokenRemoved, 1, (("token_id", _STR),)),
)
_BY_CLASS: dict[type[Any], _Form] = {form.record: form for form in _FORMS}
#: What reading a record needs, as plain tuples: a broker reads many thousands of records when it starts.
_BY_NAME = {
    form.name: (form.record, {version: form.loads(version) for version in range(1, form.version + 1)})
    for form in _FORMS
}

_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))


def _to_json(record: Record) -> dict[str, Any]:
    form = _BY_CLASS[type(record)]
    fields, version = form.fields, form.version
    if form.first_fields is not None and not any(record[form.first_fields :]):  # type: ignore[index]
        fields, version = fields[: form.first_fields], 1
    value: dict[str, Any] = {"type": form.name, "version": version}
    for name, field in fields:
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
    loads = form[1].get(version) if form is not None and type(version) is int else None
    if form is None or loads is None:
        raise UnreadableRecord(
            f"This release does not know the metadata record {name!r} of version {version!r}, so a newer "
            "release has written it: start the broker with that release or a later one."
        )
    try:
        record: Record = form[0](*[load(value[key]) for key, load in loads])
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
