"""Record batches for the contract tests, good ones and broken ones.

Invariant: a broken batch is broken in one way only; its checksum is right unless the checksum is the point.
"""

import struct
import zlib
from typing import Any

from moldau.protocol.records import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    Record,
    encode_batch,
    update_crc,
)

LAST_OFFSET_DELTA_AT = 23
PRODUCER_ID_AT = 43
RECORD_COUNT_AT = 57


def batch(
    *values: bytes, timestamp: int, key: bytes | None = b"k", keys: Any = None, **options: Any
) -> bytes:
    """One batch; all records have the same timestamp and, unless ``keys`` says otherwise, the same key."""
    values = values or (b"v",)
    chosen = [key] * len(values) if keys is None else keys
    records = [
        Record(index, timestamp, each, value, ())
        for index, (each, value) in enumerate(zip(chosen, values, strict=True))
    ]
    return bytes(encode_batch(records, **options))


def patched(made: bytes, position: int, code: str, value: int) -> bytes:
    """A batch with one number of its header replaced, and the checksum put right again."""
    changed = bytearray(made)
    struct.pack_into(f">{code}", changed, position, value)
    if position >= ATTRIBUTES_AT:
        update_crc(changed, 0)
    return bytes(changed)


def with_payload(made: bytes, payload: bytes) -> bytes:
    """The header of one batch before other bytes; length and checksum fit."""
    changed = bytearray(made[:HEADER_SIZE] + payload)
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    update_crc(changed, 0)
    return bytes(changed)


def of_size(size: int, timestamp: int) -> bytes:
    """A batch of one record that is exactly so large."""
    filling = size - len(batch(b"", timestamp=timestamp))
    while len(batch(b"v" * filling, timestamp=timestamp)) > size:
        filling -= 1
    made = batch(b"v" * filling, timestamp=timestamp)
    assert len(made) == size, f"no value gives a batch of {size} bytes"
    return made


def old_message(magic: int, timestamp: int) -> bytes:
    """A message of the formats before record batches."""
    stamp = struct.pack(">q", timestamp) if magic == 1 else b""
    body = struct.pack(">bb", magic, 0) + stamp + struct.pack(">i", 1) + b"k" + struct.pack(">i", 1) + b"v"
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message
