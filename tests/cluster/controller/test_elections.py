"""Who leads after a broker has gone or come back."""

from moldau.cluster.controller.elections import after_loss, after_return, elect
from moldau.cluster.image import PartitionImage
from moldau.cluster.records import NO_LEADER


def partition(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    leader: int,
    leader_epoch: int = 4,
    partition_epoch: int = 9,
) -> PartitionImage:
    return PartitionImage(0, replicas, isr, leader, leader_epoch, partition_epoch)


def test_the_first_live_member_of_the_isr_leads() -> None:
    assert elect(partition((3, 1, 2), (1, 2), 3), {1, 2, 3}) == 1
    assert elect(partition((3, 1, 2), (1, 2), 3), {2}) == 2
    assert elect(partition((3, 1, 2), (3,), 3), {1, 2}) == NO_LEADER


def test_loss_of_a_leader() -> None:
    lost = after_loss(partition((3, 1, 2), (3, 1, 2), 3), 3, {1, 2})
    assert lost == partition((3, 1, 2), (1, 2), 1, 5, 10)


def test_loss_of_a_follower_keeps_the_leader_epoch() -> None:
    lost = after_loss(partition((2, 3, 1), (2, 3, 1), 2), 3, {1, 2})
    assert lost == partition((2, 3, 1), (2, 1), 2, 4, 10)


def test_the_last_member_stays_in_the_isr() -> None:
    lost = after_loss(partition((3,), (3,), 3), 3, set())
    assert lost == partition((3,), (3,), NO_LEADER, 5, 10)
    assert after_loss(lost, 3, set()) is lost


def test_loss_of_a_broker_outside_the_isr_changes_nothing() -> None:
    before = partition((1, 2), (1,), 1)
    assert after_loss(before, 2, {1}) is before
    assert after_return(before, 2, {1}) is before


def test_the_last_member_leads_again_when_it_is_back() -> None:
    lost = partition((3, 1), (3,), NO_LEADER, 5, 10)
    assert after_return(lost, 3, {1}) == partition((3, 1), (3,), 3, 6, 11)
    assert after_return(lost, 1, set()) is lost


def test_a_leader_that_nobody_missed_leads_on_with_a_new_epoch() -> None:
    """Its unflushed records may be lost, and others must not take new ones for them."""
    assert after_return(partition((1,), (1,), 1), 1, set()) == partition((1,), (1,), 1, 5, 10)


def test_a_leader_that_nobody_missed_gives_way_to_a_live_member() -> None:
    assert after_return(partition((1, 2), (1, 2), 1), 1, {2}) == partition((1, 2), (2,), 2, 5, 10)


def test_a_follower_that_nobody_missed_must_catch_up_first() -> None:
    assert after_return(partition((1, 2), (1, 2), 1), 2, {1}) == partition((1, 2), (1,), 1, 4, 10)
