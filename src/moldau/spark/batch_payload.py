"""The records of one batch on their way to the broker, and the header that is put before them.

Law: a payload carries no producer id and no sequence: whoever sends it stamps the header, so that the same
payload can be sent under another identity.
"""

import struct
from dataclasses import dataclass

from moldau.protocol.checksum import crc32c
from moldau.protocol.compression import Compression
from moldau.protocol.records import MAGIC, TRANSACTIONAL_MASK

# The two parts of a batch's header: the checksum in the first covers the second.
_FRONT = struct.Struct(">qiibI")
_BODY = struct.Struct(">hiqqqhii")


@dataclass(frozen=True, slots=True)
class Payload:
    """The records of one batch, compressed, without a header."""

    partition: int
    count: int
    base_timestamp: int
    max_timestamp: int
    compression: Compression
    records: bytes

    def batch(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool
    ) -> bytes:
        """The whole batch under an identity."""
        attributes = self.compression | (TRANSACTIONAL_MASK if transactional else 0)
        body = _BODY.pack(
            attributes,
            self.count - 1,
            self.base_timestamp,
            self.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self.count,
        )
        crc = crc32c(self.records, crc32c(body))
        front = _FRONT.pack(0, len(body) + len(self.records) + 9, -1, MAGIC, crc)
        return b"".join((front, body, self.records))
