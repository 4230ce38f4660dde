"""Why a group lags: two snapshots in, plain words out."""

# ruff: noqa: E501 -- a sentence that is shown stands in one line

import pytest

from moldau.base.names import TopicPartition
from moldau.client.groups.descriptions import GroupDescription, GroupMember
from moldau.client.transport.cluster import Broker
from moldau.reports.findings import Severity
from moldau.reports.group_lag import GroupSnapshot, PartitionSnapshot, reasons

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
ANNA = GroupMember("m1", "anna", "/10.0.0.7", subscribed_topics=("orders",), assignment=(P0,))


def seen(
    partitions: dict[TopicPartition, PartitionSnapshot],
    *members: GroupMember,
    state: str = "Stable",
    time_ms: int = 0,
) -> GroupSnapshot:
    group = GroupDescription(
        "g", "Classic", state if members else "Empty", "consumer", "range", members, Broker(1, "h", 1)
    )
    return GroupSnapshot(time_ms, group, partitions)


def part(
    committed: int | None, end: int, *, begin: int = 0, stable_end: int | None = None
) -> PartitionSnapshot:
    return PartitionSnapshot(committed, begin, end, end if stable_end is None else stable_end)


def text_of(*snapshots: GroupSnapshot) -> str:
    (finding,) = reasons(*snapshots)
    return finding.text


def test_up_to_date() -> None:
    (finding,) = reasons(seen({P0: part(5, 5)}, ANNA))
    assert (finding.severity, finding.text) == (
        Severity.OK,
        "up to date: everything that was written has been read and committed",
    )


def test_nobody_reads() -> None:
    assert text_of(seen({P0: part(2, 5), P1: part(0, 4)})) == (
        "nobody reads: the group has no member, and 7 records wait in 2 partitions"
    )


def test_a_partition_without_a_member() -> None:
    assert text_of(seen({P0: part(5, 5), P1: part(3, 4)}, ANNA)) == (
        "has no member: though members subscribe to its topic; 1 record wait"
    )
    other = TopicPartition("old", 0)
    assert "no member subscribes to its topic" in text_of(seen({other: part(3, 9)}, ANNA))


def test_a_round_that_does_not_end() -> None:
    assert "is being rebalanced (PreparingRebalance)" in text_of(
        seen({P0: part(5, 5)}, ANNA, state="PreparingRebalance")
    )


def test_members_without_work() -> None:
    idle = GroupMember("m2", "b", "/h", subscribed_topics=("orders",))
    assert text_of(seen({P0: part(4, 5)}, ANNA, idle)).startswith("1 of 2 members have no partition")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (part(5, 9), part(5, 20), "stuck: anna at 10.0.0.7 has not moved from offset 5 in 10 s, 15 records behind"),
        (part(0, 500), part(50, 1000), "too slow: anna at 10.0.0.7 reads 5.0 records/s, 50 are written; the lag of 950 grows"),
        (part(0, 500), part(300, 600), "catching up: anna at 10.0.0.7 reads 30 records/s, 10 are written; 300 records behind, done in about 15 s"),
        (part(None, 9), part(None, 9), "nothing is committed: anna at 10.0.0.7 has it, but no record counts as read after 10 s"),
    ],
)  # fmt: skip
def test_progress(before: PartitionSnapshot, after: PartitionSnapshot, words: str) -> None:
    assert text_of(seen({P0: before}, ANNA), seen({P0: after}, ANNA, time_ms=10_000)) == words


def test_an_open_transaction_is_the_reason_and_not_the_member() -> None:
    state = part(5, 9, stable_end=5)
    (finding,) = reasons(seen({P0: state}, ANNA), seen({P0: state}, ANNA, time_ms=1000))
    assert finding.text.startswith("an open transaction holds back 4 records")


def test_records_that_were_deleted_unread() -> None:
    assert text_of(seen({P0: part(3, 9, begin=9)}, ANNA)) == (
        "6 records were deleted before the group read them (it is at 3, the first record is 9)"
    )


def test_a_little_lag_is_no_fault() -> None:
    assert "nothing is wrong with it" in text_of(seen({P0: part(3, 9)}, ANNA))


def test_what_was_never_committed_is_not_called_read() -> None:
    assert text_of(seen({P0: part(None, 9)}, ANNA)).startswith("nothing to see yet")
