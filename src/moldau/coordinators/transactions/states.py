"""The states of a transaction, and which may follow which.

A client of the second transaction protocol (KIP-890) may abort what it never began, so that its epoch
grows: hence the ways from EMPTY and COMPLETE_* to PREPARE_ABORT.

Invariant: numbers and names are those of Kafka's log and tools. DEAD and PREPARE_EPOCH_FENCE are known so
that filters may name them; nothing is ever written in one of them, because here a fence is written as the
abort that it is and a forgotten id as a deletion.
"""

from enum import IntEnum


class TransactionState(IntEnum):
    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


#: As DescribeTransactions and ListTransactions spell them.
NAMES = {state: state.name.title().replace("_", "") for state in TransactionState}
STATES_BY_NAME = {name: state for state, name in NAMES.items()}

_EMPTY = TransactionState.EMPTY
_ONGOING = TransactionState.ONGOING
_PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
_PREPARE_ABORT = TransactionState.PREPARE_ABORT
_COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
_COMPLETE_ABORT = TransactionState.COMPLETE_ABORT

#: The end is decided and cannot be changed any more; markers are being written.
PREPARED = frozenset({_PREPARE_COMMIT, _PREPARE_ABORT})
COMPLETE = frozenset({_COMPLETE_COMMIT, _COMPLETE_ABORT})
#: No transaction is open: the id may be taken over, and forgotten when it is old.
IDLE = COMPLETE | {_EMPTY}
#: Whoever reads committed data may have to wait for these.
OPEN = PREPARED | {_ONGOING}
#: The states that stand in the log.
WRITTEN = IDLE | OPEN

#: What may follow each state.
MOVES = {
    _EMPTY: frozenset({_EMPTY, _ONGOING, _PREPARE_ABORT}),
    _ONGOING: frozenset({_ONGOING, _PREPARE_COMMIT, _PREPARE_ABORT}),
    _PREPARE_COMMIT: frozenset({_COMPLETE_COMMIT}),
    _PREPARE_ABORT: frozenset({_COMPLETE_ABORT}),
    _COMPLETE_COMMIT: frozenset({_EMPTY, _ONGOING, _PREPARE_ABORT}),
    _COMPLETE_ABORT: frozenset({_EMPTY, _ONGOING, _PREPARE_ABORT}),
}


def may_move(old: TransactionState, new: TransactionState) -> bool:
    return new in MOVES.get(old, ())
