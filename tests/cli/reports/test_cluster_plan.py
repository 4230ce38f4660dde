"""Plans for the replicas of a cluster: even, and never worse than before."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.base.names import TopicPartition
from moldau.cli.reports.cluster_plan import REPLICA_COST, Layout, NoPlan, Placement, PlannedMove, copy_seconds

RACKS = {1: "a", 2: "a", 3: "b", 4: "b"}
GIB = 1 << 30


def layout(*placements: tuple[tuple[int, ...], int], racks: dict[int, str | None] | None = None) -> Layout:
    chosen: dict[int, str | None] = dict(RACKS) if racks is None else racks
    return Layout(
        chosen, {TopicPartition("t", number): Placement(*each) for number, each in enumerate(placements)}
    )


def test_a_broker_is_emptied_onto_those_with_least() -> None:
    made = layout(((1, 3), GIB), ((3, 2), 5), ((4, 1), 3 * GIB), racks=dict.fromkeys(RACKS))
    made.empty(3)
    moves = made.moves()
    assert [(move.partition.partition, move.before, move.after) for move in moves] == [
        (0, (1, 3), (1, 2)),
        (1, (3, 2), (4, 2)),
    ]
    assert [move.size for move in moves] == [GIB, 5]


def test_a_broker_that_is_needed_cannot_be_emptied() -> None:
    made = layout(((1, 2), 0), racks={1: None, 2: None})
    with pytest.raises(NoPlan, match="t-0 has 2 replicas, and without broker 2 only 1 brokers are left"):
        made.empty(2)


def test_a_broker_that_is_gone_can_be_emptied() -> None:
    made = layout(((7, 1), 10), racks={1: "a", 2: "b"})
    made.empty(7)
    assert made.moves()[0].after == (2, 1)


def test_racks_are_kept() -> None:
    made = layout(((1, 3), GIB), ((1, 3), GIB), ((1, 3), GIB), ((1, 3), GIB))
    made.even_out()
    assert all({RACKS[each] for each in replicas} == {"a", "b"} for replicas in made.replicas.values())
    assert set(made.loads.values()) == {2 * (GIB + REPLICA_COST)}


def test_partitions_without_data_are_spread_too() -> None:
    made = layout(*[((1,), 0)] * 8, racks=dict.fromkeys((1, 2, 3, 4)))
    made.even_out()
    assert Counter(replicas[0] for replicas in made.replicas.values()) == {1: 2, 2: 2, 3: 2, 4: 2}
    assert sum(move.size for move in made.moves()) == 0


def test_a_new_broker_gets_its_share_and_others_keep_theirs() -> None:
    made = layout(*[((number % 3 + 1,), GIB) for number in range(12)], racks=dict.fromkeys((1, 2, 3, 4)))
    made.even_out(onto=[4])
    assert Counter(replicas[0] for replicas in made.replicas.values()) == {1: 3, 2: 3, 3: 3, 4: 3}
    assert all(move.after == (4,) for move in made.moves())


def test_leaders_are_spread_without_moving_bytes() -> None:
    made = layout(*[((1, 2, 3), GIB)] * 6, racks=dict.fromkeys((1, 2, 3)))
    made.spread_leaders()
    assert Counter(replicas[0] for replicas in made.replicas.values()) == {1: 2, 2: 2, 3: 2}
    assert all(move.size == 0 and set(move.after) == {1, 2, 3} for move in made.moves())


placements = st.lists(
    st.tuples(
        st.lists(st.sampled_from(sorted(RACKS)), min_size=1, max_size=4, unique=True), st.integers(0, GIB)
    ),
    max_size=25,
)


@settings(max_examples=100, deadline=None)
@given(placements, st.booleans())
def test_a_plan_is_never_worse(found: list[tuple[list[int], int]], racks: bool) -> None:
    given_racks: dict[int, str | None] = dict(RACKS) if racks else dict.fromkeys(RACKS)
    before = [(tuple(replicas), size) for replicas, size in found]
    made = layout(*before, racks=given_racks)
    highest = max(made.loads.values())
    made.even_out()
    made.spread_leaders()
    for (replicas, _), after in zip(before, made.replicas.values(), strict=True):
        assert len(set(after)) == len(after) == len(replicas)
        if racks:
            assert len({RACKS[each] for each in after}) >= len({RACKS[each] for each in replicas})
    assert max(made.loads.values()) <= highest
    again = layout(
        *((after, size) for after, (_, size) in zip(made.replicas.values(), before, strict=True)),
        racks=given_racks,
    )
    again.even_out()
    assert again.moves() == []


def test_the_busiest_broker_says_how_long_it_takes() -> None:
    orders = TopicPartition("orders", 0)
    two = [PlannedMove(orders, (1, 2), (3, 4), 200), PlannedMove(orders, (2,), (3,), 50)]
    assert copy_seconds(two, 10) == 20.0, "broker 1 sends 200 bytes, broker 3 takes 150"
    assert copy_seconds([], 10) == 0.0
