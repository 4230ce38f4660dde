"""Transaction markers: control batches of one record that end a transaction in a partition.

A marker has 78 bytes; its key is ``version, type`` and its value ``version, coordinator epoch``. Only
brokers write markers; clients that fetch them skip them.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

from moldau.protocol.compression import Buffer
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import NO_LEADER_EPOCH, BatchHeader, Record, decode_records, encode_batch

_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
_VERSION = 0
_MARKER_LIMIT = 1024


class ControlType(IntEnum):
    """The type of a control record; those from LEADER_CHANGE on are only in Kafka's metadata log."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True)
class Marker:
    """The end of one producer's transaction in one partition."""

    type: ControlType
    coordinator_epoch: int

    @property
    def committed(self) -> bool:
        return self.type is ControlType.COMMIT


def encode_marker(
    marker: Marker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """The control batch that the leader of a partition appends."""
    record = Record(
        offset=base_offset,
        timestamp=timestamp_ms,
        key=_KEY.pack(_VERSION, marker.type),
        value=_MARKER_VALUE.pack(_VERSION, marker.coordinator_epoch),
    )
    return encode_batch(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def decode_marker(buffer: Buffer, position: int, header: BatchHeader) -> Marker | None:
    """The marker in the control batch there; None for a control batch of another type, or without records.

    Compaction leaves a batch without records where only producer and epoch are still needed.
    """
    if header.record_count == 0:
        return None
    records = decode_records(buffer, position, header, limit=_MARKER_LIMIT)
    if len(records) != 1:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a control batch of {len(records)} records")
    kind = control_type(records[0])
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    try:
        _, coordinator_epoch = _MARKER_VALUE.unpack_from(records[0].value or b"")
    except struct.error:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, "the value of a transaction marker is too short"
        ) from None
    return Marker(kind, coordinator_epoch)


def control_type(record: Record) -> ControlType | None:
    """The type of a control record; None for an unknown one."""
    try:
        _, number = _KEY.unpack_from(record.key or b"")
    except struct.error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the key of a control record is too short") from None
    try:
        return ControlType(number)
    except ValueError:
        return None
