"""The error for records that were planned to be read and are gone.

Invariant: it is never raised where ``failOnDataLoss=false`` allows holes.
"""

from moldau.protocol.errors import ErrorCode, KafkaError


class DataLoss(KafkaError):
    """Offsets that were planned are not there any more."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, message)

    def __str__(self) -> str:
        return str(self.message)
