"""The states of a transaction: names and legal moves."""

from moldau.coordinators.transactions.states import (
    COMPLETE,
    MOVES,
    NAMES,
    PREPARED,
    WRITTEN,
    TransactionState,
    may_move,
)


def test_names_are_those_of_the_tools() -> None:
    assert sorted(NAMES.values()) == [
        "CompleteAbort",
        "CompleteCommit",
        "Dead",
        "Empty",
        "Ongoing",
        "PrepareAbort",
        "PrepareCommit",
        "PrepareEpochFence",
    ]


def test_a_decided_end_has_one_way_out() -> None:
    assert MOVES[TransactionState.PREPARE_COMMIT] == {TransactionState.COMPLETE_COMMIT}
    assert MOVES[TransactionState.PREPARE_ABORT] == {TransactionState.COMPLETE_ABORT}


def test_complete_comes_behind_prepared_only() -> None:
    for old in WRITTEN:
        for new in COMPLETE:
            assert may_move(old, new) is (old in PREPARED and old.name[8:] == new.name[9:])


def test_only_written_states_move() -> None:
    assert MOVES.keys() == WRITTEN
    assert not may_move(TransactionState.DEAD, TransactionState.EMPTY)
