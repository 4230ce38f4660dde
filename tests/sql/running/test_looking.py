"""The order in which a batch takes the records of several partitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.sql.running.looking import by_time
from tests.sql.clicks import record


def test_the_earliest_head_is_next() -> None:
    one = [record("t", "a", {}, time) for time in (1, 9, 2)]
    other = [record("t", "b", {}, time) for time in (3, 4)]
    assert [each.timestamp for each in by_time([one, [], other])] == [1, 3, 4, 9, 2]


@pytest.mark.slow
@given(st.lists(st.lists(st.integers(0, 20), max_size=6), max_size=4))
def test_each_partition_keeps_its_order_and_nothing_is_lost(times: list[list[int]]) -> None:
    partitions = [
        [record("t", str(number), {}, time, offset) for offset, time in enumerate(own)]
        for number, own in enumerate(times)
    ]
    taken = list(by_time(partitions))
    for number, own in enumerate(partitions):
        assert [each for each in taken if each.key == str(number).encode()] == own
    assert len(taken) == sum(map(len, times))
