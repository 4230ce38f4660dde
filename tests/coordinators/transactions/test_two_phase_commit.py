"""Transactions that take part in a two-phase commit (KIP-939): no timeout, and somebody else may end them."""

import pytest

from moldau.protocol.errors import ErrorCode
from tests.coordinators.transactions.transaction_coordinator import T0, T1, Coordinator, given


def code(response: object) -> ErrorCode:
    return ErrorCode(response.error_code)  # type: ignore[attr-defined]


def prepared(coordinator: Coordinator) -> tuple[int, int]:
    owner = coordinator.producer(two_phase_commit=True, version=6)
    coordinator.write(owner, T0)
    return owner


def test_there_is_no_timeout(coordinator: Coordinator) -> None:
    owner = prepared(coordinator)
    coordinator.advance(10_000_000)
    coordinator.reload()
    coordinator.advance(10_000_000)
    assert coordinator.state == "Ongoing"
    assert coordinator.describe().transaction_timeout_ms == 2147483647
    assert code(coordinator.end(owner)) is ErrorCode.NONE


def test_it_can_be_forbidden() -> None:
    coordinator = Coordinator(two_phase_commit=False)
    response = coordinator.init(two_phase_commit=True, version=6)
    assert code(response) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_the_timeout_is_not_checked(coordinator: Coordinator) -> None:
    assert code(coordinator.init(two_phase_commit=True, timeout_ms=0, version=6)) is ErrorCode.NONE


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("reloaded", [True, False])
def test_a_prepared_transaction_is_ended_by_a_new_client(
    coordinator: Coordinator, committed: bool, reloaded: bool
) -> None:
    owner = prepared(coordinator)
    response = coordinator.init(two_phase_commit=True, keep=True, version=6)
    successor = given(response)
    assert successor == (owner[0], owner[1] + 1)
    assert (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch) == owner
    if reloaded:
        coordinator.reload()
    assert coordinator.state == "Ongoing"
    ended = coordinator.end(successor, committed)
    assert given(ended) == (owner[0], owner[1] + 2)
    (order,) = coordinator.write_markers()
    assert order.committed is committed
    assert order.producer_id == owner[0]
    assert order.producer_epoch == owner[1] + 2
    assert coordinator.end(successor, committed) == ended
    assert coordinator.write(given(ended)) is ErrorCode.NONE
    assert code(coordinator.end(successor)) is ErrorCode.PRODUCER_FENCED


def test_the_first_client_is_fenced(coordinator: Coordinator) -> None:
    owner = prepared(coordinator)
    successor = given(coordinator.init(two_phase_commit=True, keep=True, version=6))
    assert coordinator.write(owner, T1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(coordinator.end(owner)) is ErrorCode.PRODUCER_FENCED
    assert code(coordinator.end(owner, version=4)) is ErrorCode.PRODUCER_FENCED
    assert code(coordinator.init(claimed=owner)) is ErrorCode.PRODUCER_FENCED
    assert coordinator.write(successor, T1) is ErrorCode.INVALID_TXN_STATE
    assert coordinator.shard.transactions["t1"].partitions == (T0,)


def test_it_is_taken_over_again_and_again(coordinator: Coordinator) -> None:
    owner = prepared(coordinator)
    first = given(coordinator.init(two_phase_commit=True, keep=True, version=6))
    response = coordinator.init(two_phase_commit=True, keep=True, version=6)
    second = given(response)
    assert second == (owner[0], owner[1] + 2)
    assert (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch) == owner
    assert code(coordinator.end(first)) is ErrorCode.PRODUCER_FENCED
    assert given(coordinator.end(second)) == (owner[0], owner[1] + 3)


def test_it_is_aborted_by_a_client_that_does_not_keep_it(coordinator: Coordinator) -> None:
    owner = prepared(coordinator)
    successor = given(coordinator.init(two_phase_commit=True, keep=True, version=6))
    assert code(coordinator.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
    (order,) = coordinator.write_markers()
    assert (order.committed, order.producer_epoch) == (False, owner[1] + 2)
    assert coordinator.producer() == (owner[0], owner[1] + 3)
    assert code(coordinator.end(successor)) is ErrorCode.PRODUCER_FENCED


def test_there_is_nothing_to_keep(coordinator: Coordinator) -> None:
    response = coordinator.init(two_phase_commit=True, keep=True, version=6)
    assert (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch) == (-1, -1)
    owner = given(response)
    assert code(coordinator.end(owner)) is ErrorCode.INVALID_TXN_STATE
    coordinator.write(owner)
    coordinator.end(owner)
    response = coordinator.init(two_phase_commit=True, keep=True, version=6)
    assert code(response) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_transaction_with_a_timeout_keeps_it_unless_two_phase_commit_is_asked_for(
    coordinator: Coordinator,
) -> None:
    owner = coordinator.producer(timeout_ms=1000)
    coordinator.write(owner)
    coordinator.init(keep=True, version=6)
    coordinator.advance(500)
    assert coordinator.state == "Ongoing"
    coordinator.init(keep=True, two_phase_commit=True, version=6)
    coordinator.advance(100_000)
    assert coordinator.state == "Ongoing"

    other = coordinator.producer("t2", timeout_ms=1000)
    coordinator.write(other, transactional_id="t2")
    coordinator.init("t2", keep=True, version=6)
    coordinator.advance(1000)
    assert coordinator.describe("t2").transaction_state == "PrepareAbort"


def test_taking_over_at_the_last_epoch(coordinator: Coordinator) -> None:
    """The transaction keeps its name, its owner gets a new one."""
    owner = prepared(coordinator)
    for _ in range(3):
        successor = given(coordinator.init(two_phase_commit=True, keep=True, version=6))
    transaction = coordinator.shard.transactions["t1"]
    worn = type(transaction)(
        **{
            **{name: getattr(transaction, name) for name in transaction.__slots__},
            "next_producer_epoch": 32766,
        }
    )
    record = coordinator.shard.decode(*coordinator.log[-1])
    assert record is not None
    coordinator.log[-1] = coordinator.shard.encode(record._replace(transaction=worn))
    coordinator.reload()
    response = coordinator.init(two_phase_commit=True, keep=True, version=6)
    successor = given(response)
    assert successor[0] != owner[0]
    assert successor[1] == 0
    assert response.ongoing_txn_producer_id == owner[0]
    coordinator.reload()
    ended = coordinator.end(successor)
    assert given(ended) == (successor[0], 1)
    (order,) = coordinator.write_markers()
    assert (order.producer_id, order.producer_epoch) == (owner[0], owner[1] + 1)
    assert coordinator.end(successor) == ended
    assert coordinator.write(given(ended)) is ErrorCode.NONE
