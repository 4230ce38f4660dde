"""The traps of transaction protocols: late, repeated and foreign requests that end or enter the wrong one.

Each test names what went wrong elsewhere: with Kafka before KIP-890, Redpanda, Bufstream.
"""

import pytest

from moldau.coordinators.shard import Token
from moldau.protocol.errors import ErrorCode
from tests.coordinators.transactions.transaction_coordinator import (
    T0,
    T1,
    WAITS,
    Coordinator,
    given,
    one_code,
)


def code(response: object) -> ErrorCode:
    return ErrorCode(response.error_code)  # type: ignore[attr-defined]


# --- late requests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False])
def test_a_late_end_cannot_end_the_next_transaction(coordinator: Coordinator, committed: bool) -> None:
    """Bufstream and Kafka: a delayed commit or abort hit a different, later transaction."""
    first = coordinator.producer()
    coordinator.write(first, T0)
    second = given(coordinator.end(first))
    coordinator.write_markers()
    coordinator.write(second, T1)
    before = len(coordinator.log)
    assert code(coordinator.end(first, committed)) is ErrorCode.PRODUCER_FENCED
    assert len(coordinator.log) == before
    assert coordinator.state == "Ongoing"


def test_a_late_end_from_two_transactions_ago(coordinator: Coordinator) -> None:
    first = coordinator.producer()
    coordinator.write(first)
    second = given(coordinator.end(first))
    coordinator.write_markers()
    coordinator.write(second)
    coordinator.end(second, committed=False)
    coordinator.write_markers()
    assert code(coordinator.end(first)) is ErrorCode.PRODUCER_FENCED
    assert code(coordinator.end(first, committed=False)) is ErrorCode.PRODUCER_FENCED


def test_a_late_write_cannot_enter_the_next_transaction(coordinator: Coordinator) -> None:
    """KIP-890: a produce request that came behind the abort left a transaction hanging for ever."""
    first = coordinator.producer()
    coordinator.write(first, T0)
    second = given(coordinator.end(first, committed=False))
    assert coordinator.write(first, T0) is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.write(first, T0) is ErrorCode.INVALID_PRODUCER_EPOCH
    coordinator.write(second, T1)
    assert coordinator.write(first, T0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert coordinator.shard.transactions["t1"].partitions == (T1,)


def test_a_zombie_after_the_commit_of_its_successor(coordinator: Coordinator) -> None:
    zombie = coordinator.producer()
    owner = coordinator.producer()
    coordinator.write(owner)
    owner = given(coordinator.end(owner))
    coordinator.write_markers()
    assert coordinator.write(zombie) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert coordinator.add(zombie) == {T0: ErrorCode.PRODUCER_FENCED}
    assert coordinator.add_offsets(zombie) is ErrorCode.PRODUCER_FENCED
    assert code(coordinator.end(zombie)) is ErrorCode.PRODUCER_FENCED
    assert code(coordinator.end(zombie, version=4)) is ErrorCode.PRODUCER_FENCED
    assert coordinator.verify(zombie, T0) == {T0: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert code(coordinator.init(claimed=zombie)) is ErrorCode.PRODUCER_FENCED


def test_a_zombie_cannot_abort_its_successor_by_naming_its_old_epoch(coordinator: Coordinator) -> None:
    """Kafka compares the producer id only here, and lets the zombie abort what is not its own."""
    zombie = coordinator.producer()
    owner = coordinator.producer()
    coordinator.write(owner)
    assert code(coordinator.init(claimed=zombie)) is ErrorCode.PRODUCER_FENCED
    assert coordinator.state == "Ongoing"
    assert code(coordinator.init(claimed=owner)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.state == "PrepareAbort"


def test_a_zombie_of_the_second_protocol_is_not_told_of_a_commit_of_the_first(
    coordinator: Coordinator,
) -> None:
    zombie = coordinator.producer()
    owner = coordinator.producer()
    coordinator.add(owner)
    coordinator.end(owner, version=4)
    coordinator.write_markers()
    assert code(coordinator.end(zombie)) is ErrorCode.PRODUCER_FENCED


# --- repeated requests --------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False])
def test_a_repeated_end_gets_the_same_answer_from_the_next_coordinator(
    coordinator: Coordinator, committed: bool
) -> None:
    owner = coordinator.producer()
    coordinator.write(owner)
    response = coordinator.end(owner, committed)
    coordinator.reload()
    assert code(coordinator.end(owner, committed)) is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    coordinator.reload()
    before = len(coordinator.log)
    assert coordinator.end(owner, committed) == response
    assert len(coordinator.log) == before


def test_the_opposite_end_is_never_accepted(coordinator: Coordinator) -> None:
    """Redpanda #9571: a commit took place although its client was told otherwise, and the reverse."""
    for committed in (True, False):
        owner = coordinator.producer()
        coordinator.write(owner)
        coordinator.end(owner, committed)
        assert code(coordinator.end(owner, not committed)) is ErrorCode.CONCURRENT_TRANSACTIONS
        (order,) = coordinator.write_markers()
        assert order.committed is committed
        assert code(coordinator.end(owner, not committed)) is ErrorCode.INVALID_TXN_STATE


def test_a_repeated_init_gets_the_same_epoch(coordinator: Coordinator) -> None:
    owner = coordinator.producer()
    bumped = coordinator.producer(claimed=owner)
    assert coordinator.producer(claimed=owner) == bumped
    assert coordinator.producer(claimed=owner) == bumped


def test_a_repeated_init_is_fenced_once_another_client_has_the_id(coordinator: Coordinator) -> None:
    owner = coordinator.producer()
    coordinator.producer(claimed=owner)
    coordinator.producer()
    assert code(coordinator.init(claimed=owner)) is ErrorCode.PRODUCER_FENCED


def test_an_init_that_was_not_written_gives_nobody_a_right(coordinator: Coordinator) -> None:
    owner = coordinator.producer()
    coordinator.refusing = True
    assert coordinator.init(claimed=owner) == "refused"
    coordinator.refusing = False
    other = coordinator.producer()
    assert code(coordinator.init(claimed=owner)) is ErrorCode.PRODUCER_FENCED
    assert coordinator.write(other) is ErrorCode.NONE


def test_a_client_whose_end_was_answered_into_the_void_goes_on(coordinator: Coordinator) -> None:
    """The epoch was bumped without its knowledge; a claim of the epoch before it is its own."""
    owner = coordinator.producer()
    coordinator.write(owner)
    bumped = given(coordinator.end(owner))
    coordinator.write_markers()
    coordinator.reload()
    assert coordinator.producer(claimed=owner) == bumped
    assert coordinator.producer(claimed=owner) == bumped


def test_markers_that_are_reported_twice_or_late_count_once(coordinator: Coordinator) -> None:
    """Redpanda PR 3232: an abort marker of an older epoch, written late, aborted a newer transaction."""
    owner = coordinator.producer()
    coordinator.write(owner)
    owner = given(coordinator.end(owner, committed=False))
    (order,) = coordinator.write_markers()
    coordinator.write(owner)
    coordinator.end(owner)
    before = len(coordinator.log)
    coordinator.effects.append(order)
    current, late = coordinator.effects
    coordinator.effects = [late]
    coordinator.write_markers()
    assert len(coordinator.log) == before
    assert coordinator.state == "PrepareCommit"
    coordinator.effects = [current, current]
    coordinator.write_markers()
    assert coordinator.state == "CompleteCommit"
    assert len(coordinator.log) == before + 1


# --- coordinators come and go -------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False])
def test_a_decided_end_is_carried_out_by_the_next_coordinator(
    coordinator: Coordinator, committed: bool
) -> None:
    owner = coordinator.producer()
    coordinator.write(owner, T0, T1)
    coordinator.end(owner, committed)
    coordinator.reload()
    assert code(coordinator.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
    (order,) = coordinator.effects
    assert order.committed is committed
    assert order.partitions == (T0, T1)
    assert order.coordinator_epoch == 1
    coordinator.write_markers()
    assert coordinator.state == ("CompleteCommit" if committed else "CompleteAbort")


def test_an_open_transaction_survives_with_its_partitions_and_deadline(coordinator: Coordinator) -> None:
    """Redpanda #6018: a transaction in memory only was silently begun again; its commit lost data."""
    owner = coordinator.producer(timeout_ms=10_000)
    coordinator.write(owner, T0)
    coordinator.advance(4000)
    coordinator.reload()
    coordinator.write(owner, T1)
    assert coordinator.shard.transactions["t1"].partitions == (T0, T1)
    coordinator.advance(5999)
    assert coordinator.state == "Ongoing"
    coordinator.advance(1)
    assert coordinator.state == "PrepareAbort"


def test_a_timeout_that_passed_while_nobody_led(coordinator: Coordinator) -> None:
    owner = coordinator.producer(timeout_ms=1000)
    coordinator.write(owner)
    coordinator.timers.clear()
    coordinator.now_ms += 5000
    coordinator.reload()
    coordinator.advance(0)
    assert coordinator.state == "PrepareAbort"


def test_an_abort_without_partitions_that_another_release_left_open(coordinator: Coordinator) -> None:
    owner = coordinator.producer()
    coordinator.end(owner, committed=False)
    assert coordinator.state == "CompleteAbort"
    coordinator.log.pop()  # the record that completes it
    coordinator.reload()
    assert coordinator.state == "PrepareAbort"
    assert not coordinator.effects
    coordinator.advance(0)
    assert coordinator.state == "CompleteAbort"


# --- a log that refuses -------------------------------------------------------------------------------


def test_a_refused_append_leaves_everything_as_it_was(coordinator: Coordinator) -> None:
    owner = coordinator.producer()
    coordinator.write(owner)
    before = dict(coordinator.shard.transactions)
    coordinator.refusing = True
    assert coordinator.end(owner) == "refused"
    assert coordinator.init() == "refused"
    assert coordinator.write(owner, T1) == "refused"
    assert coordinator.shard.transactions == before
    assert not coordinator.effects
    coordinator.refusing = False
    assert given(coordinator.end(owner)) == (owner[0], owner[1] + 1)


def test_a_timeout_is_tried_again(coordinator: Coordinator) -> None:
    owner = coordinator.producer(timeout_ms=1000)
    coordinator.write(owner)
    coordinator.refusing = True
    coordinator.advance(15_000)
    assert coordinator.state == "Ongoing"
    coordinator.refusing = False
    coordinator.advance(10_000)
    assert coordinator.state == "PrepareAbort"


def test_the_completion_of_an_end_is_tried_again(coordinator: Coordinator) -> None:
    owner = coordinator.producer()
    coordinator.write(owner)
    coordinator.end(owner)
    coordinator.refusing = True
    coordinator.write_markers()
    coordinator.advance(15_000)
    assert coordinator.state == "PrepareCommit"
    coordinator.refusing = False
    coordinator.advance(10_000)
    assert coordinator.state == "CompleteCommit"


# --- writes that come before the end is written --------------------------------------------------------


def waiting_write(coordinator: Coordinator, owner: tuple[int, int]) -> Token:
    token = Token()
    coordinator.perform(
        coordinator.shard.add_partitions_for_write("t1", *owner, (T1,), token, coordinator.now_ms)
    )
    assert token not in coordinator.replies
    return token


def test_the_next_transaction_waits_for_the_markers_of_the_last(coordinator: Coordinator) -> None:
    owner = coordinator.producer()
    coordinator.write(owner)
    owner = given(coordinator.end(owner))
    tokens = [waiting_write(coordinator, owner) for _ in range(5)]
    assert coordinator.write(owner) is ErrorCode.CONCURRENT_TRANSACTIONS  # there is a bound
    coordinator.write_markers()
    assert {one_code(coordinator.replies[token]) for token in tokens} == {ErrorCode.NONE}
    assert coordinator.state == "Ongoing"
    assert coordinator.shard.transactions == coordinator.replayed().transactions
    coordinator.advance(60_000)
    assert coordinator.state == "PrepareAbort"


def test_nobody_waits_for_ever(coordinator: Coordinator) -> None:
    owner = coordinator.producer()
    coordinator.write(owner)
    owner = given(coordinator.end(owner))
    assert coordinator.write((owner[0], owner[1] + 1)) is ErrorCode.CONCURRENT_TRANSACTIONS
    token = waiting_write(coordinator, owner)
    coordinator.advance(1000)
    assert one_code(coordinator.replies[token]) is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.state == "CompleteCommit"


def test_who_waits_hears_of_a_log_that_refuses(coordinator: Coordinator) -> None:
    owner = coordinator.producer()
    coordinator.write(owner)
    owner = given(coordinator.end(owner))
    token = waiting_write(coordinator, owner)
    coordinator.refusing = True
    coordinator.write_markers()
    assert coordinator.replies[token] == "refused"


def test_init_does_not_wait(coordinator: Coordinator) -> None:
    owner = coordinator.producer()
    coordinator.write(owner)
    coordinator.end(owner)
    assert code(coordinator.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.write(owner) != WAITS


# --- the end of epochs --------------------------------------------------------------------------------


def at_epoch(coordinator: Coordinator, epoch: int) -> tuple[int, int]:
    """An owner that has come this far."""
    producer_id, _ = coordinator.producer()
    record = coordinator.shard.decode(*coordinator.log[-1])
    assert record is not None
    assert record.transaction is not None
    coordinator.log[-1] = coordinator.shard.encode(
        record._replace(
            transaction=type(record.transaction)(producer_id, epoch, 60_000, record.transaction.state, (), 0)
        )
    )
    coordinator.reload()
    return producer_id, epoch


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_at_the_last_epoch_gives_a_new_producer_id(coordinator: Coordinator, committed: bool) -> None:
    owner = at_epoch(coordinator, 32766)
    coordinator.write(owner)
    response = coordinator.end(owner, committed)
    new_owner = given(response)
    assert new_owner[0] != owner[0]
    assert new_owner[1] == 0
    token = waiting_write(coordinator, new_owner)
    (order,) = coordinator.write_markers()
    assert (order.producer_id, order.producer_epoch) == (owner[0], 32767)
    assert one_code(coordinator.replies[token]) is ErrorCode.NONE
    assert coordinator.write(owner) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_repeated_end_at_the_last_epoch(coordinator: Coordinator) -> None:
    owner = at_epoch(coordinator, 32766)
    coordinator.write(owner)
    response = coordinator.end(owner)
    coordinator.write_markers()
    coordinator.reload()
    assert coordinator.end(owner) == response
    assert code(coordinator.end(owner, committed=False)) is ErrorCode.INVALID_TXN_STATE
    assert coordinator.producer(claimed=owner) == given(response)


def test_init_at_the_last_epoch_gives_a_new_producer_id(coordinator: Coordinator) -> None:
    owner = at_epoch(coordinator, 32766)
    bumped = coordinator.producer(claimed=owner)
    assert bumped[0] != owner[0]
    assert bumped[1] == 0
    assert coordinator.producer(claimed=owner) == bumped
    assert code(coordinator.end(owner)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_fencing_at_the_last_epoch(coordinator: Coordinator) -> None:
    """KAFKA-19367: the epoch was bumped twice and overflowed."""
    owner = at_epoch(coordinator, 32766)
    coordinator.write(owner)
    assert code(coordinator.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
    (order,) = coordinator.write_markers()
    assert order.producer_epoch == 32767
    fresh = coordinator.producer()
    assert fresh[0] != owner[0]
    assert fresh[1] == 0


def test_without_a_new_id_at_hand_the_client_tries_again(coordinator: Coordinator) -> None:
    owner = at_epoch(coordinator, 32766)
    coordinator.write(owner)
    coordinator.shard.end_needs_producer_id = lambda transactional_id: False  # type: ignore[method-assign]
    assert code(coordinator.end(owner)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    coordinator.shard.needs_producer_id = lambda transactional_id: False  # type: ignore[method-assign]
    assert code(coordinator.init("other")) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# --- ids that are forgotten ----------------------------------------------------------------------------


def test_an_id_is_forgotten_when_nobody_uses_it() -> None:
    coordinator = Coordinator(id_expiration_ms=100_000)
    old = coordinator.producer("old")
    used = coordinator.producer("used")
    opened = coordinator.producer("open", timeout_ms=900_000)
    coordinator.write(opened, transactional_id="open")
    coordinator.advance(60_000)
    assert coordinator.write(used, transactional_id="used") is ErrorCode.NONE
    coordinator.end(used, transactional_id="used")
    coordinator.effects.clear()
    coordinator.advance(60_000)
    assert sorted(coordinator.shard.transactions) == ["open", "used"]
    assert coordinator.log[-1] == (b"\0\0\0\3old", None)
    assert coordinator.write(old, transactional_id="old") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.producer("old", claimed=old)[0] != old[0]
    coordinator.reload()
    assert sorted(coordinator.shard.transactions) == ["old", "open", "used"]


def test_forgetting_many_and_with_a_log_that_refuses() -> None:
    coordinator = Coordinator(id_expiration_ms=100_000)
    for number in range(2500):
        coordinator.producer(f"t{number}")
    coordinator.refusing = True
    coordinator.advance(105_000)
    assert len(coordinator.shard.transactions) == 2500
    coordinator.refusing = False
    coordinator.advance(60_000)
    assert not coordinator.shard.transactions
    assert not coordinator.replayed().transactions
