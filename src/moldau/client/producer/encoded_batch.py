"""The encoded records of one batch, and the header that is put before them.

Invariant: they carry no producer id and no sequence: the sender writes these into the header, so that the
same records can be sent under another identity.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

from moldau.protocol.checksum import crc32c
from moldau.protocol.compression import Compression, compress
from moldau.protocol.plain_payload import encode_plain_records
from moldau.protocol.records import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_MASK,
    Record,
    encode_batch,
)

#: What a record is larger than its key, value and headers, at most.
RECORD_OVERHEAD = 31

# The two parts of a batch's header: the checksum in the first covers the second.
_FRONT = struct.Struct(">qiibI")
_BODY = struct.Struct(">hiqqqhii")


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """The records of one batch, with space for the header before them."""

    partition: int
    count: int
    base_timestamp: int
    max_timestamp: int
    compression: Compression
    #: Can be written: the first ``HEADER_SIZE`` bytes are the header's.
    content: memoryview

    @classmethod
    def of(
        cls,
        partition: int,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        timestamp_ms: int,
    ) -> "EncodedBatch":
        """Records of one moment without headers; no keys stand for none in any of them."""
        content = encode_plain_records(values, keys, bytes(HEADER_SIZE))
        return cls(partition, len(values), timestamp_ms, timestamp_ms, Compression.NONE, memoryview(content))

    @classmethod
    def of_record(
        cls,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        timestamp_ms: int,
    ) -> "EncodedBatch":
        """One record alone."""
        content = encode_batch([Record(0, timestamp_ms, key, value, tuple(headers))])
        return cls(partition, 1, timestamp_ms, timestamp_ms, Compression.NONE, memoryview(content))

    def compressed(self, compression: Compression) -> "EncodedBatch":
        """The same records in less space."""
        packed = bytearray(HEADER_SIZE) + compress(compression, self.content[HEADER_SIZE:])
        return replace(self, compression=compression, content=memoryview(packed))

    def stamped(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool
    ) -> memoryview:
        """The whole batch under an identity: in its own memory, with the header written."""
        content = self.content
        _BODY.pack_into(
            content,
            _FRONT.size,
            self.compression | (TRANSACTIONAL_MASK if transactional else 0),
            self.count - 1,
            self.base_timestamp,
            self.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self.count,
        )
        crc = crc32c(content[_FRONT.size :])
        _FRONT.pack_into(content, 0, 0, len(content) - LOG_OVERHEAD, -1, MAGIC, crc)
        return content
