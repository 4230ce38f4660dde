"""The last epoch of a producer id is the coordinator's own: no client is ever given it.

Found by the simulation (seed 1001, with few epochs): a client whose last epoch was fenced by a timeout
repeated its EndTxn or claimed its identity in InitProducerId, was given the epoch of the marker, and wrote a
transaction that no marker could end.
"""

import pytest

from moldau.coordinators.transactions.transaction import LAST_CLIENT_EPOCH, Transaction
from moldau.protocol.errors import ErrorCode
from tests.coordinators.transactions.transaction_coordinator import Coordinator, given


@pytest.fixture
def owner(coordinator: Coordinator) -> tuple[int, int]:
    """An owner in its last epoch, whose transaction the coordinator has aborted at its timeout."""
    producer_id, _ = coordinator.producer()
    record = coordinator.shard.decode(*coordinator.log[-1])
    assert record is not None
    assert record.transaction is not None
    far = Transaction(producer_id, LAST_CLIENT_EPOCH, 60_000, record.transaction.state, (), 0)
    coordinator.log[-1] = coordinator.shard.encode(record._replace(transaction=far))
    coordinator.reload()
    owner = (producer_id, LAST_CLIENT_EPOCH)
    assert coordinator.write(owner) is ErrorCode.NONE
    coordinator.advance(61_000)
    (order,) = coordinator.write_markers()
    assert order.producer_epoch == LAST_CLIENT_EPOCH + 1
    return owner


def test_a_late_abort_is_fenced(coordinator: Coordinator, owner: tuple[int, int]) -> None:
    assert ErrorCode(coordinator.end(owner, committed=False).error_code) is ErrorCode.PRODUCER_FENCED
    assert ErrorCode(coordinator.end(owner, committed=True).error_code) is ErrorCode.INVALID_TXN_STATE


def test_whoever_claims_it_gets_a_new_producer_id(coordinator: Coordinator, owner: tuple[int, int]) -> None:
    new_owner = given(coordinator.init(claimed=owner))
    assert new_owner[0] != owner[0]
    assert new_owner[1] == 0
    assert given(coordinator.init(claimed=owner)) == new_owner  # an answer that was lost
