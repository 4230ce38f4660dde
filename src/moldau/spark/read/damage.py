"""The errors for records that are gone, and for fetched bytes that are corrupt: the same for all decoders.

Invariant: every message names the partition, and the offset where that is known. ``DataLoss`` is never raised
where ``failOnDataLoss=false`` allows holes.
"""

from moldau.protocol.errors import ErrorCode, KafkaError


class DataLoss(KafkaError):
    """Offsets that were planned are not there any more."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, message)

    def __str__(self) -> str:
        return str(self.message)


def no_batches(name: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{name}: what was fetched holds no record batches")


def wrong_checksum(name: str, base_offset: int) -> KafkaError:
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"{name}: the batch at offset {base_offset} has a wrong checksum; "
        "look at it with 'moldau log verify' on the broker that leads this partition",
    )


def cannot_decompress(name: str, base_offset: int, error: KafkaError) -> KafkaError:
    return KafkaError(
        error.code, f"{name}: the batch at offset {base_offset} cannot be decompressed: {error}"
    )


def broken(name: str, first: int, last: int, reason: str = "its records do not fill it") -> KafkaError:
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"{name}: a batch between offsets {first} and {last} cannot be read: {reason}",
    )
