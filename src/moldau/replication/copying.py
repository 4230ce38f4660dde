"""Appending to a log what comes from another log of the same partition.

Invariant: batches are appended as they are; nothing is thrown away but an empty log's place.
"""

from moldau.storage.log.log import Log

_OFFSET_SIZE = 8


def append_copied(log: Log, records: memoryview, now_ms: int) -> None:
    """Appends whole batches.

    Where records were deleted up to the middle of a batch, the source sends that whole batch: a log that is
    still empty then begins with it, and its start moves afterwards, as the source's did.
    """
    if log.log_start_offset == log.log_end_offset and len(records) >= _OFFSET_SIZE:
        first = int.from_bytes(records[:_OFFSET_SIZE], "big")
        if first < log.log_end_offset:
            log.restart_at(first, now_ms)
    log.append_batches(records, now_ms)
