"""One transactional id: who owns it, the transaction that it has open, and the moves it can make.

A transaction is a value. A move takes the value, what a client claims and the time, and returns the next
value, or raises KafkaError with the answer that Kafka's own coordinator gives.

Invariant: no I/O, no clock, no state besides the value; the value holds nothing that the log does not hold.
An end that was decided is never changed. Of two clients that claim an id, at most one is its owner.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from moldau.base.names import TopicPartition
from moldau.coordinators.transactions.states import COMPLETE, IDLE, PREPARED, TransactionState, may_move
from moldau.protocol.errors import ErrorCode, KafkaError

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
MAX_EPOCH = 32767
#: The last epoch that a client is given; the one behind it is kept for the marker that fences it.
LAST_CLIENT_EPOCH = MAX_EPOCH - 1
#: The timeout of a transaction that takes part in a two-phase commit: none.
NO_TIMEOUT_MS = 2147483647
#: The protocol in which each end of a transaction bumps the epoch (KIP-890).
BUMPING_VERSION = 2


class Identity(NamedTuple):
    """A producer id with its epoch."""

    producer_id: int
    producer_epoch: int


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
    #: Whom the id belongs to next, when that is somebody else than whose name the open transaction bears.
    next_producer_id: int = NO_PRODUCER_ID
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    client_transaction_version: int = 0

    @property
    def identity(self) -> Identity:
        """In whose name the records and markers of the transaction are written."""
        return Identity(self.producer_id, self.producer_epoch)

    @property
    def is_taken_over(self) -> bool:
        """A client has taken over a transaction that another one prepared (KIP-939)."""
        return self.state is TransactionState.ONGOING and self.next_producer_id != NO_PRODUCER_ID

    @property
    def owner(self) -> Identity:
        """Who may act on the id: once the end is decided, the identity that was returned with it."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return self.identity
        return Identity(self.next_producer_id, max(self.next_producer_epoch, 0))

    @property
    def is_exhausted(self) -> bool:
        """Whether the owner's next epoch takes a new producer id."""
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

    def was_ended_by(self, claimed: Identity) -> bool:
        """Whether the complete transaction ran under this identity: a request to end it is a repetition."""
        if self.state not in COMPLETE or self.client_transaction_version < BUMPING_VERSION:
            return False
        if claimed.producer_id == self.producer_id:
            return 0 <= claimed.producer_epoch == self.producer_epoch - 1
        return self.producer_epoch == 0 and claimed == (self.previous_producer_id, LAST_CLIENT_EPOCH)


def _move(transaction: Transaction, state: TransactionState, now_ms: int, **changes: object) -> Transaction:
    assert may_move(transaction.state, state), f"{transaction.state.name} -> {state.name}"
    changes = {"previous_producer_id": transaction.producer_id, **changes}
    return replace(transaction, state=state, last_update_ms=now_ms, **changes)  # type: ignore[arg-type]


def _new_id(producer_id: int | None) -> int:
    if producer_id is None:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "No producer id is at hand yet.")
    return producer_id


# --- taking the id ------------------------------------------------------------------------------------


def created(producer_id: int | None, timeout_ms: int, now_ms: int) -> Transaction:
    """An id that nobody has used, in the hands of its first owner."""
    first = _new_id(producer_id)
    return Transaction(first, 0, timeout_ms, TransactionState.EMPTY, (), now_ms, previous_producer_id=first)


def initialised(
    transaction: Transaction,
    claimed: Identity | None,
    repeats: bool,
    new_producer_id: int | None,
    timeout_ms: int,
    now_ms: int,
) -> Transaction:
    """The id with no transaction open goes to whoever asks; ``repeats``: the one who asks has it already.

    A client that names the identity it had is served only while nobody else has taken the id since.
    """
    assert transaction.state in IDLE
    has_it = repeats or (claimed is not None and transaction.was_ended_by(claimed))
    if claimed is not None and claimed != transaction.identity and not has_it:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if has_it and transaction.producer_epoch <= LAST_CLIENT_EPOCH:
        identity = transaction.identity
    elif transaction.is_exhausted:
        identity = Identity(_new_id(new_producer_id), 0)
    else:
        identity = Identity(transaction.producer_id, transaction.producer_epoch + 1)
    return _move(
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
    """The open transaction stays, and whoever asks may end it; its former owner is fenced (KIP-939)."""
    owner = transaction.owner
    if transaction.is_exhausted:
        owner = Identity(_new_id(new_producer_id), 0)
    else:
        owner = Identity(owner.producer_id, owner.producer_epoch + 1)
    return _move(
        transaction,
        TransactionState.ONGOING,
        now_ms,
        next_producer_id=owner.producer_id,
        next_producer_epoch=owner.producer_epoch,
        timeout_ms=NO_TIMEOUT_MS if two_phase_commit else transaction.timeout_ms,
    )


# --- writing ------------------------------------------------------------------------------------------


def _check_writer(transaction: Transaction | None, claimed: Identity) -> Transaction:
    if transaction is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.state in PREPARED:
        # First of all: a client may already bear the identity that the id has when the markers are written.
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
    claimed: Identity,
    partitions: Iterable[TopicPartition],
    client_transaction_version: int,
    now_ms: int,
) -> Transaction:
    """The transaction with these partitions in it: the same value when they already are."""
    transaction = _check_writer(transaction, claimed)
    ongoing = transaction.state is TransactionState.ONGOING
    known = set(transaction.partitions)
    wanted = known.union(partitions)
    if ongoing and wanted == known:
        return transaction
    return _move(
        transaction,
        TransactionState.ONGOING,
        now_ms,
        partitions=tuple(sorted(wanted)),
        start_ms=transaction.start_ms if ongoing else now_ms,
        client_transaction_version=client_transaction_version,
    )


def check_partitions(
    transaction: Transaction | None, claimed: Identity, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Whether each partition is in the open transaction: what a write of an older client has to be asked."""
    transaction = _check_writer(transaction, claimed)
    known = set(transaction.partitions)
    return {
        partition: ErrorCode.NONE if partition in known else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


# --- ending -------------------------------------------------------------------------------------------


def ended(
    transaction: Transaction | None,
    claimed: Identity,
    committed: bool,
    new_producer_id: int | None,
    now_ms: int,
) -> Transaction:
    """EndTxn of the protocol that bumps the epoch: the same value when the request repeats the last end."""
    if transaction is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.was_ended_by(claimed):
        if transaction.is_committing is not committed:
            raise _invalid_end(transaction, committed)
        if transaction.producer_epoch > LAST_CLIENT_EPOCH:
            # The coordinator's own abort took the epoch that no client may have: no marker could end it.
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        return transaction
    _check_owner(transaction, claimed)
    if transaction.state is not TransactionState.ONGOING and committed:
        raise _invalid_end(transaction, committed)
    rotated_id = _new_id(new_producer_id) if transaction.is_exhausted else None
    return _end(transaction, committed, now_ms, bump=True, rotated_id=rotated_id)


def ended_without_bump(
    transaction: Transaction | None, claimed: Identity, committed: bool, now_ms: int
) -> Transaction:
    """EndTxn of older clients: the epoch stays, so a repetition looks like the request itself."""
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
    """The coordinator itself aborts: at a timeout, or because somebody takes the id."""
    assert transaction.state is TransactionState.ONGOING
    return _end(transaction, False, now_ms, bump=True)


def completed(transaction: Transaction, now_ms: int) -> Transaction:
    """All markers are written."""
    assert transaction.state in PREPARED
    owner = transaction.owner
    return _move(
        transaction,
        TransactionState.COMPLETE_COMMIT if transaction.is_committing else TransactionState.COMPLETE_ABORT,
        now_ms,
        producer_id=owner.producer_id,
        producer_epoch=owner.producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_PRODUCER_EPOCH,
        partitions=(),
    )


def _check_owner(transaction: Transaction, claimed: Identity) -> None:
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
    """Decides the end. The marker's epoch is not below that of any client that could have written so far."""
    owner = transaction.owner
    step = 1 if bump else 0
    next_epoch = min(owner.producer_epoch + step, MAX_EPOCH)
    if owner.producer_id == transaction.producer_id:
        marker_epoch = next_epoch
        next_owner = Identity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    else:
        marker_epoch = min(transaction.producer_epoch + step, MAX_EPOCH)
        next_owner = Identity(owner.producer_id, next_epoch)
    if rotated_id is not None:
        next_owner = Identity(rotated_id, NO_PRODUCER_EPOCH)
    return _move(
        transaction,
        TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT,
        now_ms,
        producer_epoch=marker_epoch,
        next_producer_id=next_owner.producer_id,
        next_producer_epoch=next_owner.producer_epoch,
        start_ms=transaction.start_ms if transaction.state is TransactionState.ONGOING else now_ms,
        client_transaction_version=BUMPING_VERSION if bump else 0,
    )
