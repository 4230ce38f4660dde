"""The records of ``__consumer_offsets`` for offsets and classic groups, in Kafka's binary format.

A key is two bytes with the kind of the record, and its fields; a value is two bytes with its version, and its
fields. A record without a value is a tombstone.
"""

import struct as _struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from moldau.base.names import ZERO_UUID, Uuid
from moldau.protocol import codec
from moldau.protocol.primitives import MalformedMessage
from moldau.protocol.schema import Bytes, Int32, Int64, String, UuidBytes, data, declaration, field, struct

_NUMBER = _struct.Struct(">h")
_OFFSET_KEY_START = _struct.Struct(">hh")
_OFFSET_KEY_END = _struct.Struct(">i")
_OFFSET_VALUE_START = _struct.Struct(">hqiB")
_OFFSET_VALUE_END = _struct.Struct(">q")
#: All of a value that has no metadata and the id of its topic.
_PLAIN_OFFSET_VALUE = _struct.Struct(">hqiBq3s16s")
#: One tagged field, number 0, of sixteen bytes.
_TOPIC_ID_TAG = b"\1\0\x10"
#: From this length on the length itself takes more than one byte.
_LONG_METADATA = 127

#: Kinds of keys; 0 is an old one for offsets that is only read.
OLD_OFFSET_COMMIT_KEY = 0
OFFSET_COMMIT_KEY = 1
GROUP_METADATA_KEY = 2

OFFSET_COMMIT_VERSION = 4
#: Written for offsets with an expiry timestamp of their own, a field that later versions do not have.
OFFSET_COMMIT_EXPIRING_VERSION = 1
GROUP_METADATA_VERSION = 3


# --- records ------------------------------------------------------------------------------------


class OffsetCommit(NamedTuple):
    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    #: -1 when the broker's retention applies.
    expire_timestamp_ms: int = -1
    topic_id: Uuid = ZERO_UUID


class OffsetCommitTombstone(NamedTuple):
    group_id: str
    topic: str
    partition: int


class GroupMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupMetadata(NamedTuple):
    """A classic group after a rebalance: stable if it has members, else empty."""

    group_id: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int
    members: tuple[GroupMember, ...]


class GroupMetadataTombstone(NamedTuple):
    group_id: str


# --- on disk ------------------------------------------------------------------------------------


@data(versions="0", flexible="none")
class OffsetCommitKey:
    group: String = field()
    topic: String = field()
    partition: Int32 = field()


@data(versions="0-4", flexible="4+")
class OffsetCommitValue:
    offset: Int64 = field()
    leader_epoch: Int32 = field("3+", default=-1)
    metadata: String = field()
    commit_timestamp: Int64 = field()
    expire_timestamp: Int64 = field("1", default=-1)
    topic_id: UuidBytes = field("4+", tag=0, tagged="4+")


@data(versions="0", flexible="none")
class GroupMetadataKey:
    group: String = field()


@struct
class MemberMetadata:
    member_id: String = field()
    group_instance_id: String | None = field("3+", default=None)
    client_id: String = field()
    client_host: String = field()
    rebalance_timeout: Int32 = field("1+")
    session_timeout: Int32 = field()
    subscription: Bytes = field()
    assignment: Bytes = field()


@data(versions="0-4", flexible="4+")
class GroupMetadataValue:
    protocol_type: String = field()
    generation: Int32 = field()
    protocol: String | None = field()
    leader: String | None = field()
    current_state_timestamp: Int64 = field("2+", default=-1)
    members: list[MemberMetadata] = field()


def key_bytes(kind: int, key: object) -> bytes:
    return _NUMBER.pack(kind) + codec.encode(key, 0)


def value_bytes(version: int, value: object) -> bytes:
    return _NUMBER.pack(version) + codec.encode(value, version)


def read_key(cls: type, key: bytes) -> Any:
    return codec.reader(cls, 0)(memoryview(key), 2)[0]


def read_value(cls: type, value: bytes) -> Any:
    """The value, in the version it was written in; ValueError for an unknown version."""
    (version,) = _NUMBER.unpack_from(value)
    if version not in declaration(cls).versions:
        raise ValueError(f"{cls.__name__} has no version {version}")
    return codec.reader(cls, version)(memoryview(value), 2)[0]


def _offset_commit_key(group_id: str, topic: str, partition: int) -> bytes:
    """The same bytes as ``key_bytes`` without the codec: no other record is written nearly as often."""
    group, name = group_id.encode(), topic.encode()
    return (
        _OFFSET_KEY_START.pack(OFFSET_COMMIT_KEY, len(group))
        + group
        + (_NUMBER.pack(len(name)) + name + _OFFSET_KEY_END.pack(partition))
    )


def _offset_commit_to_bytes(record: OffsetCommit) -> tuple[bytes, bytes | None]:
    key = _offset_commit_key(record.group_id, record.topic, record.partition)
    metadata = record.metadata.encode()
    if record.expire_timestamp_ms < 0 and len(metadata) < _LONG_METADATA:
        tags = b"\0" if record.topic_id == ZERO_UUID else _TOPIC_ID_TAG + record.topic_id
        return key, (
            _OFFSET_VALUE_START.pack(
                OFFSET_COMMIT_VERSION, record.offset, record.leader_epoch, len(metadata) + 1
            )
            + metadata
            + _OFFSET_VALUE_END.pack(record.commit_timestamp_ms)
            + tags
        )
    version = OFFSET_COMMIT_VERSION if record.expire_timestamp_ms < 0 else OFFSET_COMMIT_EXPIRING_VERSION
    value = OffsetCommitValue(
        record.offset,
        record.leader_epoch,
        record.metadata,
        record.commit_timestamp_ms,
        record.expire_timestamp_ms,
        record.topic_id,
    )
    return key, value_bytes(version, value)


def _offset_commit_tombstone_to_bytes(record: OffsetCommitTombstone) -> tuple[bytes, bytes | None]:
    return _offset_commit_key(*record), None


def _offset_commit_from_bytes(key: bytes, value: bytes | None) -> OffsetCommit | OffsetCommitTombstone:
    if value is not None and value[:2] == b"\0\4":
        quick = _quick_offset_commit(key, value)
        if quick is not None:
            return quick
    where = read_key(OffsetCommitKey, key)
    if value is None:
        return OffsetCommitTombstone(where.group, where.topic, where.partition)
    what = read_value(OffsetCommitValue, value)
    return OffsetCommit(
        where.group,
        where.topic,
        where.partition,
        what.offset,
        what.leader_epoch,
        what.metadata,
        what.commit_timestamp,
        what.expire_timestamp,
        what.topic_id,
    )


def _quick_offset_commit(key: bytes, value: bytes) -> OffsetCommit | None:
    """Reads an offset without the codec, because a coordinator may load millions of them when it starts.

    Returns None unless it has the usual form: short metadata, and the topic id as the only tagged field.
    """
    names = _group_and_topic(key[:-4])
    if names is None:
        return None
    (partition,) = _OFFSET_KEY_END.unpack(key[-4:])
    metadata = ""
    if len(value) == _PLAIN_OFFSET_VALUE.size:
        _, offset, leader_epoch, metadata_size, time_ms, tag, topic_id = _PLAIN_OFFSET_VALUE.unpack(value)
        if metadata_size != 1 or tag != _TOPIC_ID_TAG:
            return None
    else:
        _, offset, leader_epoch, metadata_size = _OFFSET_VALUE_START.unpack_from(value)
        end = _OFFSET_VALUE_START.size + metadata_size - 1
        if (
            not 0 < metadata_size <= _LONG_METADATA
            or len(value) != end + 27
            or value[end + 8 : end + 11] != _TOPIC_ID_TAG
        ):
            return None
        metadata = value[end - metadata_size + 1 : end].decode()
        (time_ms,) = _OFFSET_VALUE_END.unpack_from(value, end)
        topic_id = value[end + 11 :]
    fields = (*names, partition, offset, leader_epoch, metadata, time_ms, -1, topic_id)
    return tuple.__new__(OffsetCommit, fields)


@lru_cache(maxsize=256)
def _group_and_topic(start: bytes) -> tuple[str, str] | None:
    """From the key of an offset without its partition; None if the lengths are wrong.

    Cached, because offsets of one group follow each other in the log.
    """
    _, group_size = _OFFSET_KEY_START.unpack_from(start)
    topic_start = 6 + group_size
    if (
        group_size < 0
        or topic_start > len(start)
        or _NUMBER.unpack_from(start, topic_start - 2)[0] != len(start) - topic_start
    ):
        return None
    return start[4 : topic_start - 2].decode(), start[topic_start:].decode()


def _group_metadata_to_bytes(record: GroupMetadata) -> tuple[bytes, bytes | None]:
    value = GroupMetadataValue(
        record.protocol_type,
        record.generation,
        record.protocol,
        record.leader,
        record.current_state_timestamp_ms,
        [MemberMetadata(*member) for member in record.members],
    )
    key = GroupMetadataKey(record.group_id)
    return key_bytes(GROUP_METADATA_KEY, key), value_bytes(GROUP_METADATA_VERSION, value)


def _group_metadata_tombstone_to_bytes(record: GroupMetadataTombstone) -> tuple[bytes, bytes | None]:
    return key_bytes(GROUP_METADATA_KEY, GroupMetadataKey(record.group_id)), None


def _group_metadata_from_bytes(key: bytes, value: bytes | None) -> GroupMetadata | GroupMetadataTombstone:
    group_id = read_key(GroupMetadataKey, key).group
    if value is None:
        return GroupMetadataTombstone(group_id)
    what = read_value(GroupMetadataValue, value)
    return GroupMetadata(
        group_id,
        what.protocol_type,
        what.generation,
        what.protocol,
        what.leader,
        what.current_state_timestamp,
        tuple(_member(member) for member in what.members),
    )


def _member(member: MemberMetadata) -> GroupMember:
    return GroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        # Version 0 had one timeout for both.
        member.rebalance_timeout or member.session_timeout,
        member.session_timeout,
        member.subscription,
        member.assignment,
    )


#: Reads a record, by the kind of its key. Other types of groups add their own kinds.
READERS: dict[int, Callable[[bytes, bytes | None], Any]] = {
    OLD_OFFSET_COMMIT_KEY: _offset_commit_from_bytes,
    OFFSET_COMMIT_KEY: _offset_commit_from_bytes,
    GROUP_METADATA_KEY: _group_metadata_from_bytes,
}

#: Writes a record, by its class.
WRITERS: dict[type, Callable[[Any], tuple[bytes, bytes | None]]] = {
    OffsetCommit: _offset_commit_to_bytes,
    OffsetCommitTombstone: _offset_commit_tombstone_to_bytes,
    GroupMetadata: _group_metadata_to_bytes,
    GroupMetadataTombstone: _group_metadata_tombstone_to_bytes,
}


def encode(record: Any) -> tuple[bytes, bytes | None]:
    return WRITERS[type(record)](record)


def decode(key: bytes, value: bytes | None) -> Any:
    """The record; None for an unknown kind; ValueError when it is corrupt."""
    try:
        (kind,) = _NUMBER.unpack_from(key)
        reader = READERS.get(kind)
        return None if reader is None else reader(key, value)
    except (MalformedMessage, UnicodeDecodeError, _struct.error) as error:
        raise ValueError(f"not a record of a group: {error}") from None
