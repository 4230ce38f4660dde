"""The state of one transactional id: its producer, its transaction, and the transitions between states.

A transaction is a value. A transition takes the value, the producer id and epoch that a client claims, and
the time, and returns the next value, or raises KafkaError with the same error as Kafka's coordinator.

Invariant: the value is exactly what the log has. Once a commit or abort is decided, it is never changed. Of
two clients that claim an id, at most one is its owner.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

from moldau.base.names import TopicPartition
from moldau.coordinators.shard import ProducerIdAndEpoch
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
MAX_EPOCH = 32767
#: The last epoch that a client can get; the one after it is reserved for the marker that fences that client.
LAST_CLIENT_EPOCH = MAX_EPOCH - 1
#: The timeout of a transaction in a two-phase commit, which never times out.
NO_TIMEOUT_MS = 2147483647
#: The transaction version in which each commit or abort bumps the epoch (KIP-890).
TRANSACTION_V2 = 2


class TransactionState(IntEnum):
    """The numbers are those of Kafka's log.

    DEAD and PREPARE_EPOCH_FENCE are never written here: fencing is written as the abort that it causes, and
    an expired id as a tombstone. They exist so that filters of requests may name them.
    """

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


#: As DescribeTransactions and ListTransactions show them.
NAMES = {state: state.name.title().replace("_", "") for state in TransactionState}
STATES_BY_NAME = {name: state for state, name in NAMES.items()}

_EMPTY = TransactionState.EMPTY
_ONGOING = TransactionState.ONGOING
_PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
_PREPARE_ABORT = TransactionState.PREPARE_ABORT
_COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
_COMPLETE_ABORT = TransactionState.COMPLETE_ABORT

#: Commit or abort is decided; the markers are being written.
PREPARED = frozenset({_PREPARE_COMMIT, _PREPARE_ABORT})
COMPLETE = frozenset({_COMPLETE_COMMIT, _COMPLETE_ABORT})
#: No transaction is open: another client may take the id, and it may expire.
IDLE = COMPLETE | {_EMPTY}
#: Read-committed consumers may have to wait for these.
OPEN = PREPARED | {_ONGOING}
#: The states that are written to the log.
WRITTEN = IDLE | OPEN

#: The states that may follow each state. A client of the second transaction protocol (KIP-890) may abort
#: without having begun, which bumps its epoch: hence the transitions from EMPTY and COMPLETE_* to
#: PREPARE_ABORT.
VALID_TRANSITIONS = {
    _EMPTY: frozenset({_EMPTY, _ONGOING, _PREPARE_ABORT}),
    _ONGOING: frozenset({_ONGOING, _PREPARE_COMMIT, _PREPARE_ABORT}),
    _PREPARE_COMMIT: frozenset({_COMPLETE_COMMIT}),
    _PREPARE_ABORT: frozenset({_COMPLETE_ABORT}),
    _COMPLETE_COMMIT: frozenset({_EMPTY, _ONGOING, _PREPARE_ABORT}),
    _COMPLETE_ABORT: frozenset({_EMPTY, _ONGOING, _PREPARE_ABORT}),
}


def is_valid_transition(old: TransactionState, new: TransactionState) -> bool:
    return new in VALID_TRANSITIONS.get(old, ())


@dataclass(frozen=True, slots=True)
class Transaction:
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: tuple[TopicPartition, ...]
    last_update_ms: int
    start_ms: int = -1
    previous_producer_id: int = NO_PRODUCER_ID
    #: The owner of the id, if it differs from the producer of the open transaction.
    next_producer_id: int = NO_PRODUCER_ID
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    client_transaction_version: int = 0

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """The producer id and epoch with which the records and markers of the transaction are written."""
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def is_taken_over(self) -> bool:
        """A client has taken over a transaction that another client prepared (KIP-939)."""
        return self.state is TransactionState.ONGOING and self.next_producer_id != NO_PRODUCER_ID

    @property
    def owner(self) -> ProducerIdAndEpoch:
        """The producer that may use the id; after EndTxn this is the one that its response returned."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return self.producer
        return ProducerIdAndEpoch(self.next_producer_id, max(self.next_producer_epoch, 0))

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the owner has the last epoch, so that the next one needs a new producer id."""
        return self.owner.producer_epoch >= LAST_CLIENT_EPOCH

    @property
    def is_committing(self) -> bool:
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    @property
    def has_timeout(self) -> bool:
        return self.state is TransactionState.ONGOING and self.timeout_ms != NO_TIMEOUT_MS

    @property
    def deadline_ms(self) -> int:
        return self.start_ms + self.timeout_ms

    def was_ended_by(self, claimed: ProducerIdAndEpoch) -> bool:
        """Whether this producer ended the completed transaction, so that its EndTxn is a retry."""
        if self.state not in COMPLETE or self.client_transaction_version < TRANSACTION_V2:
            return False
        if claimed.producer_id == self.producer_id:
            return 0 <= claimed.producer_epoch == self.producer_epoch - 1
        return self.producer_epoch == 0 and claimed == (self.previous_producer_id, LAST_CLIENT_EPOCH)


def _transition(
    transaction: Transaction, state: TransactionState, now_ms: int, **changes: object
) -> Transaction:
    assert is_valid_transition(transaction.state, state), f"{transaction.state.name} -> {state.name}"
    changes = {"previous_producer_id": transaction.producer_id, **changes}
    return replace(transaction, state=state, last_update_ms=now_ms, **changes)  # type: ignore[arg-type]


def _new_id(producer_id: int | None) -> int:
    if producer_id is None:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "No producer id is at hand yet.")
    return producer_id


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    #: transaction.max.timeout.ms
    max_timeout_ms: int = 900_000
    #: transactional.id.expiration.ms
    id_expiration_ms: int = 604_800_000
    #: transaction.two.phase.commit.enable
    two_phase_commit: bool = True


def checked_timeout_ms(request: InitProducerIdRequest, settings: TransactionSettings) -> int:
    """The transaction timeout of a client; KafkaError when its request is invalid."""
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


# --- InitProducerId ----------------------------------------------------------------------------


def created(producer_id: int | None, timeout_ms: int, now_ms: int) -> Transaction:
    """A new transactional id with its first producer."""
    first = _new_id(producer_id)
    return Transaction(first, 0, timeout_ms, TransactionState.EMPTY, (), now_ms, previous_producer_id=first)


def initialised(
    transaction: Transaction,
    claimed: ProducerIdAndEpoch | None,
    repeats: bool,
    new_producer_id: int | None,
    timeout_ms: int,
    now_ms: int,
) -> Transaction:
    """InitProducerId without an open transaction; ``repeats`` marks a retry of the last one.

    A client that names the producer id and epoch it had is fenced if another client has taken the id since.
    """
    assert transaction.state in IDLE
    has_it = repeats or (claimed is not None and transaction.was_ended_by(claimed))
    if claimed is not None and claimed != transaction.producer and not has_it:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if has_it and transaction.producer_epoch <= LAST_CLIENT_EPOCH:
        identity = transaction.producer
    elif transaction.is_epoch_exhausted:
        identity = ProducerIdAndEpoch(_new_id(new_producer_id), 0)
    else:
        identity = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch + 1)
    return _transition(
        transaction,
        TransactionState.EMPTY,
        now_ms,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        timeout_ms=timeout_ms,
        partitions=(),
        start_ms=-1,
    )


def taken_over(
    transaction: Transaction, new_producer_id: int | None, *, two_phase_commit: bool, now_ms: int
) -> Transaction:
    """Keeps the open transaction for the new owner to end; the former owner is fenced (KIP-939)."""
    owner = transaction.owner
    if transaction.is_epoch_exhausted:
        owner = ProducerIdAndEpoch(_new_id(new_producer_id), 0)
    else:
        owner = ProducerIdAndEpoch(owner.producer_id, owner.producer_epoch + 1)
    return _transition(
        transaction,
        TransactionState.ONGOING,
        now_ms,
        next_producer_id=owner.producer_id,
        next_producer_epoch=owner.producer_epoch,
        timeout_ms=NO_TIMEOUT_MS if two_phase_commit else transaction.timeout_ms,
    )


# --- writing ------------------------------------------------------------------------------------------


def _check_writer(transaction: Transaction | None, claimed: ProducerIdAndEpoch) -> Transaction:
    if transaction is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.state in PREPARED:
        # Checked first: a client may already have the epoch that becomes valid with the last marker.
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    owner = transaction.owner
    if claimed.producer_id != owner.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if claimed.producer_epoch != owner.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if transaction.is_taken_over:
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE, "A prepared transaction that was taken over can only be ended."
        )
    return transaction


def with_partitions(
    transaction: Transaction | None,
    claimed: ProducerIdAndEpoch,
    partitions: Iterable[TopicPartition],
    client_transaction_version: int,
    now_ms: int,
) -> Transaction:
    """Adds partitions to the transaction; the same object when they are in it already."""
    transaction = _check_writer(transaction, claimed)
    ongoing = transaction.state is TransactionState.ONGOING
    known = set(transaction.partitions)
    wanted = known.union(partitions)
    if ongoing and wanted == known:
        return transaction
    return _transition(
        transaction,
        TransactionState.ONGOING,
        now_ms,
        partitions=tuple(sorted(wanted)),
        start_ms=transaction.start_ms if ongoing else now_ms,
        client_transaction_version=client_transaction_version,
    )


def check_partitions(
    transaction: Transaction | None, claimed: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Whether each partition is in the open transaction, to verify writes of older clients."""
    transaction = _check_writer(transaction, claimed)
    known = set(transaction.partitions)
    return {
        partition: ErrorCode.NONE if partition in known else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


# --- ending -------------------------------------------------------------------------------------------


def ended(
    transaction: Transaction | None,
    claimed: ProducerIdAndEpoch,
    committed: bool,
    new_producer_id: int | None,
    now_ms: int,
) -> Transaction:
    """EndTxn of the second protocol, which bumps the epoch; the same object for a retry."""
    if transaction is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.was_ended_by(claimed):
        if transaction.is_committing is not committed:
            raise _invalid_end(transaction, committed)
        if transaction.producer_epoch > LAST_CLIENT_EPOCH:
            # The coordinator's own abort used the reserved epoch; with it the client could not be fenced.
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        return transaction
    _check_owner(transaction, claimed)
    if transaction.state is not TransactionState.ONGOING and committed:
        raise _invalid_end(transaction, committed)
    rotated_id = _new_id(new_producer_id) if transaction.is_epoch_exhausted else None
    return _end(transaction, committed, now_ms, bump=True, rotated_id=rotated_id)


def ended_without_bump(
    transaction: Transaction | None, claimed: ProducerIdAndEpoch, committed: bool, now_ms: int
) -> Transaction:
    """EndTxn of older clients, which keeps the epoch; the same object for a retry."""
    if transaction is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    _check_owner(transaction, claimed)
    if transaction.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.state in COMPLETE and transaction.is_committing is committed:
        return transaction
    if transaction.state is not TransactionState.ONGOING:
        raise _invalid_end(transaction, committed)
    return _end(transaction, committed, now_ms, bump=False)


def fenced(transaction: Transaction, now_ms: int) -> Transaction:
    """The coordinator aborts: after the timeout, or because another client takes the id."""
    assert transaction.state is TransactionState.ONGOING
    return _end(transaction, False, now_ms, bump=True)


def completed(transaction: Transaction, now_ms: int) -> Transaction:
    """All markers are written."""
    assert transaction.state in PREPARED
    owner = transaction.owner
    return _transition(
        transaction,
        TransactionState.COMPLETE_COMMIT if transaction.is_committing else TransactionState.COMPLETE_ABORT,
        now_ms,
        producer_id=owner.producer_id,
        producer_epoch=owner.producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_PRODUCER_EPOCH,
        partitions=(),
    )


def _check_owner(transaction: Transaction, claimed: ProducerIdAndEpoch) -> None:
    owner = transaction.owner
    if claimed.producer_id != owner.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if claimed.producer_epoch != owner.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)


def _invalid_end(transaction: Transaction, committed: bool) -> KafkaError:
    what = "commit" if committed else "abort"
    return KafkaError(ErrorCode.INVALID_TXN_STATE, f"Cannot {what} in state {transaction.state.name}.")


def _end(
    transaction: Transaction, committed: bool, now_ms: int, *, bump: bool, rotated_id: int | None = None
) -> Transaction:
    """Decides commit or abort. The marker's epoch is not below that of any client that could have written."""
    owner = transaction.owner
    step = 1 if bump else 0
    next_epoch = min(owner.producer_epoch + step, MAX_EPOCH)
    if owner.producer_id == transaction.producer_id:
        marker_epoch = next_epoch
        next_owner = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    else:
        marker_epoch = min(transaction.producer_epoch + step, MAX_EPOCH)
        next_owner = ProducerIdAndEpoch(owner.producer_id, next_epoch)
    if rotated_id is not None:
        next_owner = ProducerIdAndEpoch(rotated_id, NO_PRODUCER_EPOCH)
    return _transition(
        transaction,
        TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT,
        now_ms,
        producer_epoch=marker_epoch,
        next_producer_id=next_owner.producer_id,
        next_producer_epoch=next_owner.producer_epoch,
        start_ms=transaction.start_ms if transaction.state is TransactionState.ONGOING else now_ms,
        client_transaction_version=TRANSACTION_V2 if bump else 0,
    )
