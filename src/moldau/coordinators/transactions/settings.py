"""The settings of a broker that the transaction coordinator asks for, and what they allow.

Invariant: a value; whoever makes it knows where the numbers come from and when they change.
"""

from dataclasses import dataclass

from moldau.coordinators.transactions.transaction import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMEOUT_MS
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    #: transaction.max.timeout.ms
    max_timeout_ms: int = 900_000
    #: transactional.id.expiration.ms
    id_expiration_ms: int = 604_800_000
    #: transaction.two.phase.commit.enable
    two_phase_commit: bool = True


def checked_timeout_ms(request: InitProducerIdRequest, settings: TransactionSettings) -> int:
    """The timeout that the transactions of a client will have; KafkaError when its request may not be."""
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.enable2_pc:
        if not settings.two_phase_commit:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return NO_TIMEOUT_MS
    if not 0 < request.transaction_timeout_ms <= settings.max_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    return request.transaction_timeout_ms
