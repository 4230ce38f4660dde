"""What a leader knows of its followers: the high watermark, who comes into the ISR and who leaves it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.cluster.image import PartitionImage
from moldau.replication.isr import UNKNOWN_OFFSET, FollowerProgress, LeaderState

NOW = 1_000_000
LAG = 30_000


def described(isr: tuple[int, ...] = (1, 2, 3), partition_epoch: int = 0) -> PartitionImage:
    return PartitionImage(0, (1, 2, 3), isr, 1, 0, partition_epoch)


def anybody(broker_id: int) -> bool:
    return True


def test_the_high_watermark_is_what_all_in_sync_have() -> None:
    leading = LeaderState(described(), 0, NOW)
    assert leading.high_watermark(10, 1, NOW, LAG, anybody) == UNKNOWN_OFFSET
    leading.fetch(2, 10, 0, 10, NOW)
    assert leading.high_watermark(10, 1, NOW, LAG, anybody) == UNKNOWN_OFFSET
    leading.fetch(3, 7, 0, 10, NOW)
    assert leading.high_watermark(10, 1, NOW, LAG, anybody) == 7


def test_a_replica_that_catches_up_holds_the_high_watermark_back_before_it_is_in_sync() -> None:
    leading = LeaderState(described((1, 2)), 0, NOW)
    leading.fetch(2, 10, 0, 10, NOW)
    leading.fetch(3, 5, 0, 10, NOW)
    assert leading.high_watermark(10, 1, NOW, LAG, anybody) == 10, "3 is far behind and does not count"
    leading.fetch(3, 10, 0, 10, NOW)
    assert leading.high_watermark(12, 1, NOW, LAG, anybody) == 10
    leading.fetch(2, 12, 0, 12, NOW)
    assert leading.high_watermark(12, 1, NOW, LAG, lambda broker_id: False) == 12, "3 is gone"
    assert leading.high_watermark(12, 1, NOW + LAG + 1, LAG, anybody) == 12, "3 has fallen behind"


def test_below_min_insync_replicas_nothing_is_committed() -> None:
    leading = LeaderState(described((1,)), 0, NOW)
    assert leading.high_watermark(10, 2, NOW, LAG, anybody) == UNKNOWN_OFFSET
    assert leading.high_watermark(10, 1, NOW, LAG, anybody) == 10
    assert leading.is_under_min_isr(9)
    alone = LeaderState(PartitionImage(0, (1,), (1,), 1, 0, 0), 0, NOW)
    assert not alone.is_under_min_isr(9), "all replicas are as much as can be asked for"


def test_a_follower_comes_in_at_the_high_watermark_and_the_start_of_the_epoch() -> None:
    leading = LeaderState(described((1, 2)), 8, NOW)
    leading.fetch(3, 7, 0, 10, NOW)
    assert leading.expanded_isr(3, 5, anybody) is None, "it may lack records of an earlier leader"
    leading.fetch(3, 8, 0, 10, NOW)
    assert leading.expanded_isr(3, 9, anybody) is None
    assert leading.expanded_isr(3, 8, lambda broker_id: False) is None
    assert leading.expanded_isr(3, 8, anybody) == (1, 2, 3)
    assert leading.expanded_isr(2, 0, anybody) is None, "it is in already"


def test_in_sync_replicas_are_named_in_the_order_of_their_ids() -> None:
    """Kafka's tools print them as they are."""
    leading = LeaderState(described((1, 3)), 8, NOW)
    leading.fetch(2, 8, 0, 10, NOW)
    assert leading.expanded_isr(2, 8, anybody) == (1, 2, 3)


def test_one_proposal_at_a_time_and_it_counts_until_it_is_answered() -> None:
    leading = LeaderState(described((1, 2)), 0, NOW)
    leading.fetch(2, 5, 0, 5, NOW)
    leading.fetch(3, 5, 0, 5, NOW)
    leading.propose((1, 2, 3))
    assert leading.maximal_isr == {1, 2, 3}
    assert leading.expanded_isr(3, 0, anybody) is None
    assert leading.shrunk_isr(9, NOW + 2 * LAG, LAG) is None
    leading.update(described((1, 2, 3), 1), NOW)
    assert (leading.isr, leading.proposed, leading.partition_epoch) == ((1, 2, 3), None, 1)


def test_a_proposal_without_an_answer_may_have_been_taken() -> None:
    leading = LeaderState(described((1, 2)), 0, NOW)
    leading.propose((1, 2, 3))
    leading.proposal_failed(refused=False)
    assert leading.maximal_isr == {1, 2, 3}
    leading.propose((1, 2, 3))
    leading.proposal_failed(refused=True)
    assert leading.maximal_isr == {1, 2, 3}, "the first one is still in doubt"
    leading.update(described((1, 2), 1), NOW)
    assert leading.maximal_isr == {1, 2}


def test_a_proposal_without_an_answer_is_made_again() -> None:
    """Or one who is dead and was never in sync would keep everybody waiting for ever."""
    leading = LeaderState(described((1,)), 0, NOW)
    leading.fetch(2, 5, 0, 5, NOW)
    leading.propose((1, 2))
    assert leading.doubtful_isr() is None, "it is under way"
    leading.proposal_failed(refused=False)
    assert leading.doubtful_isr() == (1, 2)
    assert leading.high_watermark(9, 1, NOW + 2 * LAG, LAG, lambda broker_id: False) == 5
    leading.propose((1, 2))
    leading.proposal_failed(refused=True, ineligible=True)
    assert leading.doubtful_isr() is None
    assert leading.high_watermark(9, 1, NOW + 2 * LAG, LAG, lambda broker_id: False) == 9


def test_who_lags_leaves() -> None:
    leading = LeaderState(described(), 0, NOW)
    for replica in (2, 3):
        leading.fetch(replica, 10, 0, 10, NOW)
    assert leading.shrunk_isr(10, NOW + 10 * LAG, LAG) is None, "at the end of the log nobody lags"
    leading.fetch(2, 11, 0, 11, NOW + LAG)
    assert leading.shrunk_isr(11, NOW + LAG, LAG) is None
    assert leading.shrunk_isr(11, NOW + LAG + 1, LAG) == (1, 2)
    assert leading.shrunk_isr(12, NOW + 3 * LAG, LAG) == (1,)


def test_a_follower_that_always_reaches_the_last_end_keeps_up() -> None:
    leading = LeaderState(described((1, 2)), 0, NOW)
    for step in range(1, 100):
        now_ms = NOW + step * LAG // 2
        leading.fetch(2, 10 * (step - 1), 0, 10 * step, now_ms)
        assert leading.shrunk_isr(10 * step, now_ms, LAG) is None
    for step in range(100, 104):
        leading.fetch(2, 10 * 99 - 1, 0, 10 * step, NOW + step * LAG // 2)
    assert leading.shrunk_isr(1040, NOW + 104 * LAG // 2, LAG) == (1,)


def test_replicas_come_and_go() -> None:
    leading = LeaderState(described((1, 2)), 0, NOW)
    leading.update(PartitionImage(0, (1, 2, 4), (1, 2), 1, 0, 1), NOW)
    assert set(leading.followers) == {2, 4}
    leading.update(PartitionImage(0, (1, 4), (1, 2), 1, 0, 2), NOW)
    assert leading.shrunk_isr(0, NOW, LAG) == (1,), "2 is no replica any more"


@pytest.mark.slow
@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(st.sampled_from((2, 3)), st.integers(0, 20), st.integers(0, 3), st.booleans()), max_size=30
    )
)
def test_the_high_watermark_is_never_above_what_somebody_in_sync_has(
    steps: list[tuple[int, int, int, bool]],
) -> None:
    """Followers fetch anything in any order, proposals are answered or not."""
    leading = LeaderState(described(), 0, NOW)
    ends = {2: -1, 3: -1}
    end, now_ms, epoch = 0, NOW, 0
    for replica, offset, written, answered in steps:
        end += written
        now_ms += LAG // 3
        offset = min(offset, end)
        leading.fetch(replica, offset, 0, end, now_ms)
        ends[replica] = offset
        for isr in (
            leading.expanded_isr(replica, 0, anybody),
            leading.shrunk_isr(end, now_ms, LAG),
        ):
            if isr is not None and leading.proposed is None:
                leading.propose(isr)
                if answered:
                    epoch += 1
                    leading.update(described(isr, epoch), now_ms)
                else:
                    leading.proposal_failed(refused=False)
        high_watermark = leading.high_watermark(end, 1, now_ms, LAG, anybody)
        assert all(high_watermark <= ends[each] for each in leading.maximal_isr if each != 1)


def test_a_follower_that_idles_is_caught_up_until_its_last_fetch() -> None:
    fetching, idling = FollowerProgress(0), FollowerProgress(0)
    for each in (fetching, idling):
        each.fetch(5, 0, 5, 100)
    for now_ms in (200, 300):
        fetching.fetch(5, 0, 5, now_ms)
    idling.idled(300)
    assert (
        (idling.caught_up_ms, idling.fetched_ms) == (fetching.caught_up_ms, fetching.fetched_ms) == (300, 300)
    )
    idling.idled(250)
    assert (idling.caught_up_ms, idling.fetched_ms) == (300, 300)
    for each in (fetching, idling):  # what came meanwhile it has not; it had everything at 300
        each.fetch(5, 0, 6, 400)
        assert not each.is_caught_up(6, 331, 30)
        assert each.is_caught_up(6, 330, 30)
