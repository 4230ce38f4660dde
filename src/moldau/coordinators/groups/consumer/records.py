"""The records of ``__consumer_offsets`` for consumer groups (KIP-848), in Kafka's binary format.

A group is stored as many records: its epoch, each member's subscription, target and current assignment, the
epoch of the target assignment, and the topics that match each regular expression. This file adds its kinds to
the tables of ``groups/records.py``.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from moldau.base.names import Uuid
from moldau.coordinators.groups.consumer.assignors import Partition, Partitions
from moldau.coordinators.groups.records import (
    READERS,
    WRITERS,
    key_bytes,
    read_key,
    read_value,
    value_bytes,
)
from moldau.protocol import codec
from moldau.protocol.primitives import read_unsigned_varint, write_unsigned_varint
from moldau.protocol.schema import Bytes, Int8, Int32, Int64, String, UuidBytes, data, field, struct

METADATA_KEY = 3
#: Not written any more, but deleted with the group: earlier releases stored the topics' metadata there.
PARTITION_METADATA_KEY = 4
MEMBER_METADATA_KEY = 5
TARGET_ASSIGNMENT_METADATA_KEY = 6
TARGET_ASSIGNMENT_MEMBER_KEY = 7
CURRENT_ASSIGNMENT_KEY = 8
REGULAR_EXPRESSION_KEY = 16

#: Stable, with unrevoked partitions, with unreleased partitions.
STATES = range(3)

#: Partitions with the member epochs at which they were assigned.
PartitionEpochs = Mapping[Partition, int]


# --- records ------------------------------------------------------------------------------------


class ConsumerGroupMetadata(NamedTuple):
    group_id: str
    epoch: int
    #: The hash of the subscribed topics; 0 when there are none.
    metadata_hash: int = 0


class ConsumerGroupMetadataTombstone(NamedTuple):
    group_id: str


class PartitionMetadataTombstone(NamedTuple):
    group_id: str


class ClassicMetadata(NamedTuple):
    """The additional fields of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class MemberMetadata(NamedTuple):
    group_id: str
    member_id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    #: In order.
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicMetadata | None = None


class MemberMetadataTombstone(NamedTuple):
    group_id: str
    member_id: str


class TargetAssignmentMetadata(NamedTuple):
    group_id: str
    assignment_epoch: int
    assignment_timestamp_ms: int


class TargetAssignmentMetadataTombstone(NamedTuple):
    group_id: str


class TargetAssignment(NamedTuple):
    group_id: str
    member_id: str
    partitions: Partitions


class TargetAssignmentTombstone(NamedTuple):
    group_id: str
    member_id: str


class CurrentAssignment(NamedTuple):
    group_id: str
    member_id: str
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: PartitionEpochs
    pending_revocation: PartitionEpochs


class CurrentAssignmentTombstone(NamedTuple):
    group_id: str
    member_id: str


class RegularExpression(NamedTuple):
    group_id: str
    regular_expression: str
    #: In order.
    topics: tuple[str, ...]
    #: The version of the topics that it was matched against.
    version: int
    timestamp_ms: int


class RegularExpressionTombstone(NamedTuple):
    group_id: str
    regular_expression: str


# --- on disk ------------------------------------------------------------------------------------


@data(versions="0", flexible="none")
class GroupKey:
    group_id: String = field()


@data(versions="0", flexible="none")
class MemberKey:
    group_id: String = field()
    member_id: String = field()


@data(versions="0", flexible="none")
class RegularExpressionKey:
    group_id: String = field()
    regular_expression: String = field()


@data(versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    epoch: Int32 = field()
    metadata_hash: Int64 = field(tag=0, tagged="0+")


@struct
class ClassicProtocol:
    name: String = field()
    metadata: Bytes = field()


@data(versions="0", flexible="0+")
class ClassicMemberMetadata:
    session_timeout_ms: Int32 = field()
    supported_protocols: list[ClassicProtocol] = field()


@data(versions="0", flexible="0+")
class MemberMetadataValue:
    instance_id: String | None = field()
    rack_id: String | None = field()
    client_id: String = field()
    client_host: String = field()
    subscribed_topic_names: list[String] = field()
    subscribed_topic_regex: String | None = field()
    rebalance_timeout_ms: Int32 = field(default=-1)
    server_assignor: String | None = field()


@data(versions="0", flexible="0+")
class TargetAssignmentMetadataValue:
    assignment_epoch: Int32 = field()
    assignment_timestamp: Int64 = field(tag=0, tagged="0+")


@struct
class TargetTopic:
    topic_id: UuidBytes = field()
    partitions: list[Int32] = field()


@data(versions="0", flexible="0+")
class TargetAssignmentValue:
    topic_partitions: list[TargetTopic] = field()


@struct
class CurrentTopic:
    topic_id: UuidBytes = field()
    partitions: list[Int32] = field()
    assignment_epochs: list[Int32] = field(tag=0, tagged="0+")


@data(versions="0", flexible="0+")
class CurrentAssignmentValue:
    member_epoch: Int32 = field()
    previous_member_epoch: Int32 = field()
    state: Int8 = field()
    assigned_partitions: list[CurrentTopic] = field()
    partitions_pending_revocation: list[CurrentTopic] = field()


@data(versions="0", flexible="0+")
class RegularExpressionValue:
    topics: list[String] = field()
    version: Int64 = field()
    timestamp: Int64 = field()


# --- partitions by topic ------------------------------------------------------------------------


def by_topic(partitions: Iterable[Partition]) -> dict[Uuid, list[int]]:
    """Partition indexes by topic id, both sorted."""
    topics: dict[Uuid, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


def _current_topics(partitions: PartitionEpochs) -> list[CurrentTopic]:
    return [
        CurrentTopic(topic, indexes, [partitions[topic, index] for index in indexes])
        for topic, indexes in by_topic(partitions).items()
    ]


def _epochs_of(topics: list[CurrentTopic], member_epoch: int) -> dict[Partition, int]:
    """Releases that did not write the epochs assigned all partitions at the member epoch."""
    found = {}
    for topic in topics:
        epochs = topic.assignment_epochs or [member_epoch] * len(topic.partitions)
        if len(epochs) != len(topic.partitions):
            raise ValueError("a partition without an epoch")
        for index, epoch in zip(topic.partitions, epochs, strict=True):
            found[topic.topic_id, index] = epoch
    return found


# --- reading and writing ------------------------------------------------------------------------


def _read_metadata(key: bytes, value: bytes | None) -> Any:
    group_id = read_key(GroupKey, key).group_id
    if value is None:
        return ConsumerGroupMetadataTombstone(group_id)
    what = read_value(ConsumerGroupMetadataValue, value)
    return ConsumerGroupMetadata(group_id, what.epoch, what.metadata_hash)


def _write_metadata(record: ConsumerGroupMetadata) -> tuple[bytes, bytes | None]:
    value = ConsumerGroupMetadataValue(record.epoch, record.metadata_hash)
    return key_bytes(METADATA_KEY, GroupKey(record.group_id)), value_bytes(0, value)


def _read_partition_metadata(key: bytes, value: bytes | None) -> Any:
    return PartitionMetadataTombstone(read_key(GroupKey, key).group_id) if value is None else None


def _read_member(key: bytes, value: bytes | None) -> Any:
    where = read_key(MemberKey, key)
    if value is None:
        return MemberMetadataTombstone(where.group_id, where.member_id)
    what = read_value(MemberMetadataValue, value)
    classic = _read_classic(what, value)
    return MemberMetadata(
        where.group_id,
        where.member_id,
        what.instance_id,
        what.rack_id,
        what.client_id,
        what.client_host,
        tuple(what.subscribed_topic_names),
        what.subscribed_topic_regex or "",
        what.rebalance_timeout_ms,
        what.server_assignor,
        classic,
    )


def _write_member(record: MemberMetadata) -> tuple[bytes, bytes | None]:
    value = MemberMetadataValue(
        record.instance_id,
        record.rack_id,
        record.client_id,
        record.client_host,
        list(record.subscribed_topic_names),
        record.subscribed_topic_regex,
        record.rebalance_timeout_ms,
        record.server_assignor,
    )
    key = key_bytes(MEMBER_METADATA_KEY, MemberKey(record.group_id, record.member_id))
    return key, value_bytes(0, value)[:-1] + _classic_tag(record.classic)


# The classic member metadata is a nullable tagged structure, and Kafka writes the null: a zero byte instead
# of the one in front of a structure. No message of the protocol has such a field, so it is encoded by hand.
_NO_CLASSIC_TAG = b"\x01\x00\x01\x00"


def _classic_tag(classic: ClassicMetadata | None) -> bytes:
    """The tagged fields of a member's value: their number, then tag, size and content."""
    if classic is None:
        return _NO_CLASSIC_TAG
    protocols = [ClassicProtocol(*protocol) for protocol in classic.protocols]
    content = b"\x01" + codec.encode(ClassicMemberMetadata(classic.session_timeout_ms, protocols), 0)
    out = bytearray(b"\x01\x00")
    write_unsigned_varint(len(content), out)
    return bytes(out) + content


def _read_classic(read: MemberMetadataValue, value: bytes) -> ClassicMetadata | None:
    # The decoded value without its tagged fields has the same length when it is encoded again.
    position = 2 + len(codec.encode(read, 0)) - 1
    count, position = read_unsigned_varint(value, position)
    for _ in range(count):
        tag, position = read_unsigned_varint(value, position)
        size, position = read_unsigned_varint(value, position)
        if tag == 0 and size and value[position]:
            found = codec.decode(ClassicMemberMetadata, 0, value[position + 1 : position + size])
            protocols = tuple((each.name, bytes(each.metadata)) for each in found.supported_protocols)
            return ClassicMetadata(found.session_timeout_ms, protocols)
        position += size
    return None


def _read_target_metadata(key: bytes, value: bytes | None) -> Any:
    group_id = read_key(GroupKey, key).group_id
    if value is None:
        return TargetAssignmentMetadataTombstone(group_id)
    what = read_value(TargetAssignmentMetadataValue, value)
    return TargetAssignmentMetadata(group_id, what.assignment_epoch, what.assignment_timestamp)


def _write_target_metadata(record: TargetAssignmentMetadata) -> tuple[bytes, bytes | None]:
    value = TargetAssignmentMetadataValue(record.assignment_epoch, record.assignment_timestamp_ms)
    return key_bytes(TARGET_ASSIGNMENT_METADATA_KEY, GroupKey(record.group_id)), value_bytes(0, value)


def _read_target(key: bytes, value: bytes | None) -> Any:
    where = read_key(MemberKey, key)
    if value is None:
        return TargetAssignmentTombstone(where.group_id, where.member_id)
    what = read_value(TargetAssignmentValue, value)
    partitions = frozenset(
        (topic.topic_id, index) for topic in what.topic_partitions for index in topic.partitions
    )
    return TargetAssignment(where.group_id, where.member_id, partitions)


def _write_target(record: TargetAssignment) -> tuple[bytes, bytes | None]:
    key = MemberKey(record.group_id, record.member_id)
    value = TargetAssignmentValue([TargetTopic(*item) for item in by_topic(record.partitions).items()])
    return key_bytes(TARGET_ASSIGNMENT_MEMBER_KEY, key), value_bytes(0, value)


def _read_current(key: bytes, value: bytes | None) -> Any:
    where = read_key(MemberKey, key)
    if value is None:
        return CurrentAssignmentTombstone(where.group_id, where.member_id)
    what = read_value(CurrentAssignmentValue, value)
    if what.state not in STATES:
        raise ValueError(f"a member has no state {what.state}")
    return CurrentAssignment(
        where.group_id,
        where.member_id,
        what.member_epoch,
        what.previous_member_epoch,
        what.state,
        _epochs_of(what.assigned_partitions, what.member_epoch),
        _epochs_of(what.partitions_pending_revocation, what.member_epoch),
    )


def _write_current(record: CurrentAssignment) -> tuple[bytes, bytes | None]:
    value = CurrentAssignmentValue(
        record.member_epoch,
        record.previous_member_epoch,
        record.state,
        _current_topics(record.assigned),
        _current_topics(record.pending_revocation),
    )
    return key_bytes(CURRENT_ASSIGNMENT_KEY, MemberKey(record.group_id, record.member_id)), value_bytes(
        0, value
    )


def _read_regular_expression(key: bytes, value: bytes | None) -> Any:
    where = read_key(RegularExpressionKey, key)
    if value is None:
        return RegularExpressionTombstone(where.group_id, where.regular_expression)
    what = read_value(RegularExpressionValue, value)
    return RegularExpression(
        where.group_id, where.regular_expression, tuple(what.topics), what.version, what.timestamp
    )


def _write_regular_expression(record: RegularExpression) -> tuple[bytes, bytes | None]:
    key = RegularExpressionKey(record.group_id, record.regular_expression)
    value = RegularExpressionValue(list(record.topics), record.version, record.timestamp_ms)
    return key_bytes(REGULAR_EXPRESSION_KEY, key), value_bytes(0, value)


def _tombstone(kind: int, key: type) -> Callable[[Any], tuple[bytes, bytes | None]]:
    return lambda record: (key_bytes(kind, key(*record)), None)


READERS.update(
    {
        METADATA_KEY: _read_metadata,
        PARTITION_METADATA_KEY: _read_partition_metadata,
        MEMBER_METADATA_KEY: _read_member,
        TARGET_ASSIGNMENT_METADATA_KEY: _read_target_metadata,
        TARGET_ASSIGNMENT_MEMBER_KEY: _read_target,
        CURRENT_ASSIGNMENT_KEY: _read_current,
        REGULAR_EXPRESSION_KEY: _read_regular_expression,
    }
)

WRITERS.update(
    {
        ConsumerGroupMetadata: _write_metadata,
        ConsumerGroupMetadataTombstone: _tombstone(METADATA_KEY, GroupKey),
        PartitionMetadataTombstone: _tombstone(PARTITION_METADATA_KEY, GroupKey),
        MemberMetadata: _write_member,
        MemberMetadataTombstone: _tombstone(MEMBER_METADATA_KEY, MemberKey),
        TargetAssignmentMetadata: _write_target_metadata,
        TargetAssignmentMetadataTombstone: _tombstone(TARGET_ASSIGNMENT_METADATA_KEY, GroupKey),
        TargetAssignment: _write_target,
        TargetAssignmentTombstone: _tombstone(TARGET_ASSIGNMENT_MEMBER_KEY, MemberKey),
        CurrentAssignment: _write_current,
        CurrentAssignmentTombstone: _tombstone(CURRENT_ASSIGNMENT_KEY, MemberKey),
        RegularExpression: _write_regular_expression,
        RegularExpressionTombstone: _tombstone(REGULAR_EXPRESSION_KEY, RegularExpressionKey),
    }
)
