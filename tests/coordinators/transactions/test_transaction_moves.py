"""One transactional id as a value: every move it can make, and who is refused."""

from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.coordinators.transactions.transaction import (
    LAST_CLIENT_EPOCH,
    NO_TIMEOUT_MS,
    Transaction,
    check_partitions,
    completed,
    created,
    ended,
    ended_without_bump,
    fenced,
    initialised,
    taken_over,
    with_partitions,
)
from moldau.protocol.errors import ErrorCode, KafkaError

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NEW = created(7, 60_000, 100)
OPEN = with_partitions(NEW, NEW.owner, [T0], 2, 200)


def refused(move: Any, *arguments: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        move(*arguments)
    return error.value.code


def names(transaction: Transaction) -> tuple[str, int, int]:
    return transaction.state.name, *transaction.owner


def test_a_new_id_belongs_to_its_first_owner() -> None:
    assert names(NEW) == ("EMPTY", 7, 0)
    assert not NEW.has_timeout
    assert refused(created, None, 60_000, 100) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_the_next_owner_has_the_next_epoch() -> None:
    later = initialised(NEW, None, False, None, 30_000, 150)
    assert (names(later), later.timeout_ms, later.last_update_ms) == (("EMPTY", 7, 1), 30_000, 150)
    assert refused(initialised, later, NEW.owner, False, None, 30_000, 160) is ErrorCode.PRODUCER_FENCED
    again = initialised(later, NEW.owner, True, None, 30_000, 160)
    assert again.owner == later.owner, "a repetition is answered alike"


def test_an_epoch_that_is_the_last_one_takes_a_new_id() -> None:
    last = Transaction(7, LAST_CLIENT_EPOCH, 60_000, NEW.state, (), 100)
    assert initialised(last, None, False, 8, 60_000, 150).owner == (8, 0)
    assert refused(initialised, last, None, False, None, 1, 1) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_partitions_open_a_transaction() -> None:
    assert (OPEN.state.name, OPEN.partitions, OPEN.start_ms) == ("ONGOING", (T0,), 200)
    assert (OPEN.has_timeout, OPEN.deadline_ms) == (True, 60_200)
    more = with_partitions(OPEN, OPEN.owner, [T1, T0], 2, 300)
    assert (more.partitions, more.start_ms) == ((T0, T1), 200)
    assert with_partitions(more, more.owner, [T1], 2, 400) is more


def test_who_may_not_write() -> None:
    other_epoch, other_id = OPEN.owner._replace(producer_epoch=9), OPEN.owner._replace(producer_id=9)
    assert refused(with_partitions, None, OPEN.owner, [T0], 2, 1) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refused(with_partitions, OPEN, other_id, [T0], 2, 1) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refused(with_partitions, OPEN, other_epoch, [T0], 2, 1) is ErrorCode.PRODUCER_FENCED
    ending = ended(OPEN, OPEN.owner, True, None, 300)
    assert refused(with_partitions, ending, ending.owner, [T0], 2, 1) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_partitions_are_checked_without_a_change() -> None:
    assert check_partitions(OPEN, OPEN.owner, [T0, T1]) == {
        T0: ErrorCode.NONE,
        T1: ErrorCode.TRANSACTION_ABORTABLE,
    }


@pytest.mark.parametrize(("committed", "word"), [(True, "COMMIT"), (False, "ABORT")])
def test_an_end_gives_the_next_epoch(committed: bool, word: str) -> None:
    ending = ended(OPEN, OPEN.owner, committed, None, 300)
    assert (ending.state.name, ending.producer_epoch, ending.partitions) == (f"PREPARE_{word}", 1, (T0,))
    over = completed(ending, 400)
    assert (names(over), over.partitions) == ((f"COMPLETE_{word}", 7, 1), ())
    assert ended(over, OPEN.owner, committed, None, 500) is over, "a repetition changes nothing"
    assert refused(ended, over, OPEN.owner, not committed, None, 500) is ErrorCode.INVALID_TXN_STATE


def test_an_end_of_older_clients_keeps_the_epoch() -> None:
    ending = ended_without_bump(OPEN, OPEN.owner, True, 300)
    assert names(completed(ending, 400)) == ("COMPLETE_COMMIT", 7, 0)
    assert refused(ended_without_bump, ending, ending.owner, True, 300) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert refused(ended_without_bump, NEW, NEW.owner, True, 300) is ErrorCode.INVALID_TXN_STATE
    assert refused(ended_without_bump, None, NEW.owner, True, 300) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_the_coordinator_aborts_and_fences() -> None:
    over = completed(fenced(OPEN, 300), 400)
    assert names(over) == ("COMPLETE_ABORT", 7, 1)


def test_a_prepared_transaction_can_be_taken_over_and_only_ended() -> None:
    taken = taken_over(OPEN, None, two_phase_commit=True, now_ms=300)
    assert (taken.state.name, taken.partitions, taken.timeout_ms) == ("ONGOING", (T0,), NO_TIMEOUT_MS)
    assert taken.owner == (7, 1)
    assert not taken.has_timeout
    assert refused(with_partitions, taken, taken.owner, [T1], 2, 400) is ErrorCode.INVALID_TXN_STATE
    assert refused(ended, taken, OPEN.owner, True, None, 400) is ErrorCode.PRODUCER_FENCED
    assert ended(taken, taken.owner, True, None, 400).state.name == "PREPARE_COMMIT"
