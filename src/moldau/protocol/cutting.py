"""A batch without its last records: what is left when a log ends in the middle of one.

Invariant: pure. Offsets, times, producer and codec of what stays are as they were, so that a reader cannot
tell the cut batch from one that a producer has sent like that.
"""

from moldau.protocol.compression import Buffer
from moldau.protocol.records import BatchHeader, decode_records, encode_batch


def cut_batch(
    buffer: Buffer, position: int, header: BatchHeader, end_offset: int, *, limit: int
) -> bytearray | None:
    """The batch at ``position`` with its records below ``end_offset`` only; None when there are none.

    The records are decoded, to at most ``limit`` bytes.
    """
    records = decode_records(buffer, position, header, limit=limit)
    kept = [record for record in records if record.offset < end_offset]
    if not kept:
        return None
    by_append_time = header.timestamp_type
    return encode_batch(
        kept,
        compression=header.compression,
        base_offset=header.base_offset,
        last_offset_delta=min(header.last_offset, end_offset - 1) - header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        timestamp_type=by_append_time,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp if by_append_time else None,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        delete_horizon=header.has_delete_horizon,
    )
