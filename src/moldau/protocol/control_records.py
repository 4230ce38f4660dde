"""The markers that end a transaction in a partition: a control batch of one record.

Invariant: a marker is 78 bytes long: key ``version, type``, value ``version, coordinator epoch``. Only
brokers write one; a client that fetches it steps over it.
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
    """What a control record is for; the ones from LEADER_CHANGE on stand in Kafka's own metadata log only."""

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
    """The control batch that a partition's leader appends for ``marker``."""
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
    """The marker that the control batch there holds; None for a control batch of another kind.

    So it is for an empty one: compaction leaves it where only producer and epoch are worth keeping.
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
    """What the control record is for; None for a number that this version does not know."""
    try:
        _, number = _KEY.unpack_from(record.key or b"")
    except struct.error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the key of a control record is too short") from None
    try:
        return ControlType(number)
    except ValueError:
        return None
