from hypothesis import given
from hypothesis import strategies as st

from moldau.base.names import TopicPartition
from moldau.spark.read.planning import OffsetRange, admit, ranges_between, split

A, B, C = (TopicPartition("t", index) for index in range(3))


def test_only_partitions_with_something_are_read() -> None:
    assert ranges_between({A: 0, B: 5, C: 7}, {A: 3, B: 5, C: 6}) == [OffsetRange("t", 0, 0, 3)]


def test_a_new_partition_without_a_start_is_left_for_later() -> None:
    assert ranges_between({A: 0}, {A: 1, B: 4}) == [OffsetRange("t", 0, 0, 1)]


def test_splitting_gives_larger_ranges_more_parts() -> None:
    parts = split([OffsetRange("t", 0, 0, 100), OffsetRange("t", 1, 0, 10)], 5, None)
    assert [p.size for p in parts if p.partition == 0] == [25, 25, 25, 25]
    assert [p.size for p in parts if p.partition == 1] == [10]


def test_splitting_by_size() -> None:
    assert [(p.start, p.end) for p in split([OffsetRange("t", 0, 10, 35)], None, 10)] == [
        (10, 18),
        (18, 26),
        (26, 35),
    ]


ranges = st.lists(
    st.builds(
        lambda p, s, n: OffsetRange("t", p, s, s + n),
        st.integers(0, 9),
        st.integers(0, 99),
        st.integers(1, 500),
    ),
    max_size=6,
    unique_by=lambda r: r.partition,
)


@given(ranges, st.none() | st.integers(1, 40), st.none() | st.integers(1, 100))
def test_every_offset_is_in_exactly_one_part(
    whole: list[OffsetRange], least: int | None, most: int | None
) -> None:
    parts = split(whole, least, most)
    wanted = [(r.partition, offset) for r in whole for offset in range(r.start, r.end)]
    assert sorted((p.partition, offset) for p in parts for offset in range(p.start, p.end)) == sorted(wanted)
    assert all(p.size > 0 for p in parts)
    assert most is None or all(p.size <= most for p in parts)
    assert least is None or len(parts) >= min(least, len(wanted))


@given(
    st.dictionaries(
        st.sampled_from([A, B, C]), st.tuples(st.integers(0, 50), st.integers(0, 900)), min_size=1
    ),
    st.integers(1, 500),
)
def test_admission(waiting: dict[TopicPartition, tuple[int, int]], limit: int) -> None:
    starts = {tp: start for tp, (start, _) in waiting.items()}
    ends = {tp: start + size for tp, (start, size) in waiting.items()}
    admitted = admit(starts, ends, limit)
    assert all(starts[tp] <= admitted[tp] <= ends[tp] for tp in ends)
    total = sum(admitted[tp] - starts[tp] for tp in ends)
    assert total == min(limit, sum(size for _, size in waiting.values()))


def test_a_small_partition_is_not_starved() -> None:
    admitted = admit({A: 0, B: 0}, {A: 1_000_000, B: 1}, 10)
    assert admitted[B] == 1
