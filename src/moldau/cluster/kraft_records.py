"""Reads the metadata log of Apache Kafka (KRaft), as far as importing a Kafka broker needs it.

A record's value is a frame: version of the frame, API key, version of the record (unsigned varints), then the
record in the encoding of the protocol. Topics, partitions, configs, producer ids and features are decoded.
Users, ACLs, quotas and tokens are not imported; they are counted, so that the import can report them.

Invariant: records of an aborted or unfinished metadata transaction are not applied. A record that cannot be
read raises ``UnreadableRecord``; other kinds of records are skipped.
"""

from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from moldau.base.names import Uuid
from moldau.cluster.records import UnreadableRecord
from moldau.protocol import codec, schema
from moldau.protocol.primitives import MalformedMessage, read_unsigned_varint
from moldau.protocol.schema import Int8, Int16, Int32, Int64, String, UuidBytes

_FRAME_VERSION = 1
_NO_LEADER_CHANGE = -2
#: The number of topics among the types of resources.
_TOPIC_RESOURCE = 2


class Kind(IntEnum):
    """API keys of metadata records."""

    TOPIC = 2
    PARTITION = 3
    CONFIG = 4
    PARTITION_CHANGE = 5
    REMOVE_TOPIC = 9
    DELEGATION_TOKEN = 10
    USER_SCRAM_CREDENTIAL = 11
    FEATURE_LEVEL = 12
    CLIENT_QUOTA = 14
    PRODUCER_IDS = 15
    ACCESS_CONTROL_ENTRY = 18
    REMOVE_ACCESS_CONTROL_ENTRY = 19
    REMOVE_USER_SCRAM_CREDENTIAL = 22
    BEGIN_TRANSACTION = 23
    END_TRANSACTION = 24
    ABORT_TRANSACTION = 25
    REMOVE_DELEGATION_TOKEN = 26


@schema.data(versions="0+", flexible="0+")
class TopicRecord:
    name: String = schema.field()
    topic_id: UuidBytes = schema.field()


@schema.data(versions="0+", flexible="0+")
class PartitionRecord:
    partition_id: Int32 = schema.field()
    topic_id: UuidBytes = schema.field()
    replicas: list[Int32] = schema.field()
    isr: list[Int32] = schema.field()
    removing_replicas: list[Int32] = schema.field()
    adding_replicas: list[Int32] = schema.field()
    leader: Int32 = schema.field()
    leader_epoch: Int32 = schema.field()
    partition_epoch: Int32 = schema.field()
    directories: list[UuidBytes] = schema.field("1+")


@schema.data(versions="0+", flexible="0+")
class PartitionChangeRecord:
    partition_id: Int32 = schema.field()
    topic_id: UuidBytes = schema.field()
    leader: Int32 = schema.field(tag=1, default=_NO_LEADER_CHANGE)


@schema.data(versions="0+", flexible="0+")
class ConfigRecord:
    resource_type: Int8 = schema.field()
    resource_name: String = schema.field()
    name: String = schema.field()
    value: String | None = schema.field()


@schema.data(versions="0+", flexible="0+")
class RemoveTopicRecord:
    topic_id: UuidBytes = schema.field()


@schema.data(versions="0+", flexible="0+")
class FeatureLevelRecord:
    name: String = schema.field()
    feature_level: Int16 = schema.field()


@schema.data(versions="0+", flexible="0+")
class ProducerIdsRecord:
    broker_id: Int32 = schema.field()
    broker_epoch: Int64 = schema.field()
    next_producer_id: Int64 = schema.field()


_CLASSES: dict[int, type[Any]] = {
    Kind.TOPIC: TopicRecord,
    Kind.PARTITION: PartitionRecord,
    Kind.PARTITION_CHANGE: PartitionChangeRecord,
    Kind.CONFIG: ConfigRecord,
    Kind.REMOVE_TOPIC: RemoveTopicRecord,
    Kind.FEATURE_LEVEL: FeatureLevelRecord,
    Kind.PRODUCER_IDS: ProducerIdsRecord,
}

#: Kinds that are only counted: how they are called, and whether the record adds or removes one.
_COUNTED = {
    Kind.USER_SCRAM_CREDENTIAL: ("SCRAM credentials", 1),
    Kind.REMOVE_USER_SCRAM_CREDENTIAL: ("SCRAM credentials", -1),
    Kind.ACCESS_CONTROL_ENTRY: ("ACLs", 1),
    Kind.REMOVE_ACCESS_CONTROL_ENTRY: ("ACLs", -1),
    Kind.DELEGATION_TOKEN: ("delegation tokens", 1),
    Kind.REMOVE_DELEGATION_TOKEN: ("delegation tokens", -1),
    Kind.CLIENT_QUOTA: ("client quotas", 1),
}


@dataclass(slots=True)
class KraftTopic:
    name: str
    topic_id: Uuid
    #: The leader epoch of each partition.
    leader_epochs: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class KraftCluster:
    """The state after the records so far."""

    topics: dict[Uuid, KraftTopic] = field(default_factory=dict)
    #: By the number of the resource's type and its name.
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    #: How many there are of what is not imported, by name.
    left_out: Counter[str] = field(default_factory=Counter)

    def apply(self, kind: int, record: Any) -> None:
        match record:
            case TopicRecord():
                self.topics[bytes(record.topic_id)] = KraftTopic(record.name, bytes(record.topic_id))
            case PartitionRecord():
                self._topic(record.topic_id).leader_epochs[record.partition_id] = record.leader_epoch
            case PartitionChangeRecord():
                epochs = self._topic(record.topic_id).leader_epochs
                if record.leader != _NO_LEADER_CHANGE:
                    epochs[record.partition_id] = epochs.get(record.partition_id, 0) + 1
            case RemoveTopicRecord():
                gone = self.topics.pop(bytes(record.topic_id), None)
                if gone is not None:
                    self.configs.pop((_TOPIC_RESOURCE, gone.name), None)
            case ConfigRecord():
                configs = self.configs.setdefault((record.resource_type, record.resource_name), {})
                if record.value is None:
                    configs.pop(record.name, None)
                else:
                    configs[record.name] = record.value
            case FeatureLevelRecord():
                self.features[record.name] = record.feature_level
            case ProducerIdsRecord():
                self.next_producer_id = max(self.next_producer_id, record.next_producer_id)
            case None if kind in _COUNTED:
                name, change = _COUNTED[Kind(kind)]
                self.left_out[name] += change

    def _topic(self, topic_id: Uuid) -> KraftTopic:
        topic = self.topics.get(bytes(topic_id))
        if topic is None:
            raise UnreadableRecord("A partition in Kafka's metadata log belongs to no topic before it.")
        return topic


def decode(value: bytes) -> tuple[int, Any]:
    """The kind of a metadata record and, for the kinds that are needed, the record."""
    try:
        frame_version, position = read_unsigned_varint(value, 0)
        kind, position = read_unsigned_varint(value, position)
        version, position = read_unsigned_varint(value, position)
        if frame_version != _FRAME_VERSION:
            raise UnreadableRecord(
                f"A frame of version {frame_version} in Kafka's metadata log is not known."
            )
        cls = _CLASSES.get(kind)
        return kind, None if cls is None else codec.decode(cls, version, value, position)
    except (MalformedMessage, IndexError) as error:
        raise UnreadableRecord(f"A record of Kafka's metadata log cannot be read: {error}.") from None


def replay(values: Iterable[bytes], cluster: KraftCluster | None = None) -> KraftCluster:
    """The cluster after these records; an unfinished metadata transaction is not applied."""
    cluster = KraftCluster() if cluster is None else cluster
    before: KraftCluster | None = None
    for value in values:
        kind, record = decode(value)
        if kind == Kind.BEGIN_TRANSACTION:
            before = deepcopy(cluster)
        elif kind == Kind.ABORT_TRANSACTION and before is not None:
            cluster, before = before, None
        elif kind == Kind.END_TRANSACTION:
            before = None
        else:
            cluster.apply(kind, record)
    return cluster if before is None else before
