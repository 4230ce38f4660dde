"""The errors for fetched bytes that are corrupt: the same for the kernels and for ``plain_decode``.

Invariant: every message names the partition, and the offset where that is known.
"""

from moldau.protocol.errors import ErrorCode, KafkaError


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
