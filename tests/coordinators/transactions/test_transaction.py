"""The states of a transaction: names and legal transitions."""

from moldau.coordinators.transactions.transaction import (
    COMPLETE,
    NAMES,
    PREPARED,
    VALID_TRANSITIONS,
    WRITTEN,
    TransactionState,
    is_valid_transition,
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
    assert VALID_TRANSITIONS[TransactionState.PREPARE_COMMIT] == {TransactionState.COMPLETE_COMMIT}
    assert VALID_TRANSITIONS[TransactionState.PREPARE_ABORT] == {TransactionState.COMPLETE_ABORT}


def test_complete_comes_behind_prepared_only() -> None:
    for old in WRITTEN:
        for new in COMPLETE:
            assert is_valid_transition(old, new) is (old in PREPARED and old.name[8:] == new.name[9:])


def test_only_written_states_move() -> None:
    assert VALID_TRANSITIONS.keys() == WRITTEN
    assert not is_valid_transition(TransactionState.DEAD, TransactionState.EMPTY)
