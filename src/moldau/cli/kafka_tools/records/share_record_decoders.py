"""Records of ``__share_group_state``, and control records of Kafka's own metadata log, as JSON.

Pure. The output is that of Kafka's own dump tool. A record that cannot be decoded gets a message instead of
its key.
"""

from typing import Any

from moldau.base.names import format_uuid
from moldau.cli.kafka_tools.records.record_decoders import VERSION_SIZE, json_text, version_of
from moldau.protocol import codec, schema
from moldau.protocol.control_records import ControlType
from moldau.protocol.primitives import MalformedMessage
from moldau.protocol.records import Record
from moldau.protocol.schema import Int8, Int16, Int32, Int64, String, UuidBytes

_SNAPSHOT_KEY = 0
_UPDATE_KEY = 1


@schema.data(versions="0", flexible="none")
class SharePartitionKey:
    group_id: String = schema.field()
    topic_id: UuidBytes = schema.field()
    partition: Int32 = schema.field()


@schema.struct
class StateBatch:
    first_offset: Int64 = schema.field()
    last_offset: Int64 = schema.field()
    delivery_state: Int8 = schema.field()
    delivery_count: Int16 = schema.field()


@schema.data(versions="0", flexible="0+")
class ShareSnapshotValue:
    snapshot_epoch: Int32 = schema.field()
    state_epoch: Int32 = schema.field()
    leader_epoch: Int32 = schema.field()
    start_offset: Int64 = schema.field()
    delivery_complete_count: Int32 = schema.field(tag=0, default=-1)
    create_timestamp: Int64 = schema.field()
    write_timestamp: Int64 = schema.field()
    state_batches: list[StateBatch] = schema.field()


@schema.data(versions="0", flexible="0+")
class ShareUpdateValue:
    snapshot_epoch: Int32 = schema.field()
    leader_epoch: Int32 = schema.field()
    start_offset: Int64 = schema.field()
    delivery_complete_count: Int32 = schema.field(tag=0, default=-1)
    state_batches: list[StateBatch] = schema.field()


def share_group_state(record: Record) -> tuple[str, str | None]:
    """A record of ``__share_group_state``."""
    try:
        kind = version_of(record.key)
        if kind not in (_SNAPSHOT_KEY, _UPDATE_KEY):
            return f"Unknown record type {kind} at offset {record.offset}, skipping.", None
        key = codec.decode(SharePartitionKey, 0, record.key or b"", VERSION_SIZE)
        shown = json_text({"type": str(kind), "data": _object(key)})
        if record.value is None:
            return shown, "<DELETE>"
        version = version_of(record.value)
        cls: type[Any] = ShareSnapshotValue if kind == _SNAPSHOT_KEY else ShareUpdateValue
        value = codec.decode(cls, version, record.value, VERSION_SIZE)
        return shown, json_text({"version": str(version), "data": _object(value)})
    except (MalformedMessage, ValueError) as error:
        return f"Could not read record at offset {record.offset} due to: {error}", None


# Control records of the metadata log ---------------------------------------------------------------------


@schema.struct
class Voter:
    voter_id: Int32 = schema.field()
    voter_directory_id: UuidBytes = schema.field("1+")


@schema.data(versions="0-1", flexible="0+")
class LeaderChangeMessage:
    version: Int16 = schema.field()
    leader_id: Int32 = schema.field()
    voters: list[Voter] = schema.field()
    granting_voters: list[Voter] = schema.field()


@schema.data(versions="0", flexible="0+")
class SnapshotHeaderRecord:
    version: Int16 = schema.field()
    last_contained_log_timestamp: Int64 = schema.field()


@schema.data(versions="0", flexible="0+")
class SnapshotFooterRecord:
    version: Int16 = schema.field()


@schema.data(versions="0", flexible="0+")
class KRaftVersionRecord:
    version: Int16 = schema.field()
    k_raft_version: Int16 = schema.field()


#: Type of the record -> the text before its JSON, and the class of its value.
_CONTROL_RECORDS: dict[int, tuple[str, type[Any]]] = {
    ControlType.LEADER_CHANGE: ("LeaderChange: ", LeaderChangeMessage),
    ControlType.SNAPSHOT_HEADER: ("SnapshotHeader ", SnapshotHeaderRecord),
    ControlType.SNAPSHOT_FOOTER: ("SnapshotFooter ", SnapshotFooterRecord),
    ControlType.KRAFT_VERSION: ("KRaftVersion ", KRaftVersionRecord),
}


def control_record(number: int, value: bytes | None) -> str | None:
    """A control record of the metadata log; None for other types, and for one that cannot be decoded."""
    if number not in _CONTROL_RECORDS or value is None:
        return None
    title, cls = _CONTROL_RECORDS[number]
    try:
        version = version_of(value)
        return title + json_text(_object(codec.decode(cls, version, value), version))
    except (MalformedMessage, ValueError):
        return None


# Any structure ---------------------------------------------------------------------------------------------


def _object(message: Any, version: int = 0) -> dict[str, Any]:
    """The fields of a structure in its version; tagged ones only if they differ from their default."""
    shown: dict[str, Any] = {}
    for field in schema.declaration(type(message)).fields:
        value = getattr(message, field.name)
        if version not in field.present or (version in field.tagged and value == field.default):
            continue
        if field.is_array:
            value = [_object(each, version) for each in value]
        first, *rest = field.name.split("_")
        name = first + "".join(word.capitalize() for word in rest)
        shown[name] = format_uuid(bytes(value)) if field.kind == "uuid" else value
    return shown
