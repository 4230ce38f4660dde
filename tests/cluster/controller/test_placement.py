"""The spread of replicas over brokers and racks."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.cluster.controller.placement import place_replicas
from moldau.cluster.image import BrokerImage
from moldau.protocol.errors import ErrorCode, KafkaError


def brokers(*racks: str | None, fenced: tuple[int, ...] = ()) -> list[BrokerImage]:
    """Brokers 1, 2, 3, … in these racks."""
    return [
        BrokerImage(index, 1, bytes(16), (), rack, (), fenced=index in fenced)
        for index, rack in enumerate(racks, 1)
    ]


def place(
    among: list[BrokerImage], partition_count: int, replication_factor: int, *, seed: int = 0, first: int = 0
) -> list[tuple[int, ...]]:
    return place_replicas(
        among,
        first_partition=first,
        partition_count=partition_count,
        replication_factor=replication_factor,
        seed=seed,
    )


def test_leaders_go_round_and_followers_move_on_after_each_round() -> None:
    assert place(brokers(None, None, None), 7, 2) == [(1, 2), (2, 3), (3, 1), (1, 3), (2, 1), (3, 2), (1, 2)]


def test_the_seed_moves_the_start_and_the_distance() -> None:
    assert place(brokers(None, None, None), 2, 2, seed=1) == [(2, 3), (3, 1)]
    assert place(brokers(None, None, None), 2, 2, seed=3) == [(1, 3), (2, 1)]


def test_added_partitions_go_on_where_the_topic_ended() -> None:
    three = brokers(None, None, None)
    assert place(three, 4, 2) + place(three, 3, 2, first=4) == place(three, 7, 2)


def test_one_broker() -> None:
    assert place(brokers(None), 3, 1, seed=12345) == [(1,), (1,), (1,)]


def test_neighbours_stand_in_different_racks() -> None:
    assert place(brokers("a", "a", "b", "b", "c", "c"), 6, 3) == [
        (1, 3, 5),
        (3, 5, 2),
        (5, 2, 4),
        (2, 4, 6),
        (4, 6, 1),
        (6, 1, 3),
    ]


def test_fenced_brokers_come_last_and_only_in_need() -> None:
    among = brokers(None, None, None, fenced=(2,))
    assert place(among, 4, 2) == [(1, 3), (3, 1), (1, 3), (3, 1)]
    assert place(among, 2, 3) == [(1, 3, 2), (3, 1, 2)]
    assert place(brokers(None, None, fenced=(1,)), 2, 2) == [(2, 1), (2, 1)]


@pytest.mark.parametrize(
    ("among", "message"),
    [
        (
            brokers(None),
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be "
            "reached because only 1 broker(s) are registered or some brokers have all their log directories "
            "cordoned.",
        ),
        (
            brokers(None, None, fenced=(1, 2)),
            "Unable to replicate the partition 2 time(s): All brokers are currently fenced, or have all "
            "their log directories cordoned.",
        ),
    ],
)
def test_no_room(among: list[BrokerImage], message: str) -> None:
    with pytest.raises(KafkaError) as caught:
        place(among, 1, 2)
    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_REPLICATION_FACTOR, message)


@pytest.mark.slow
@settings(deadline=None)
@given(
    racks=st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=9),
    data=st.data(),
    seed=st.integers(0, 2**63),
    partition_count=st.integers(1, 40),
)
def test_any_placement_is_fair(
    racks: list[str | None], data: st.DataObject, seed: int, partition_count: int
) -> None:
    fenced = data.draw(st.sets(st.integers(1, len(racks)), max_size=len(racks) - 1))
    among = brokers(*racks, fenced=tuple(fenced))
    factor = data.draw(st.integers(1, len(racks)))
    placed = place(among, partition_count, factor, seed=seed)
    live = {broker.broker_id for broker in among} - fenced
    rack_of = {broker.broker_id: broker.rack for broker in among}
    leaders = Counter(replicas[0] for replicas in placed)
    assert len(placed) == partition_count
    assert max(leaders.values()) - min(leaders[each] for each in live) <= 1
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert replicas[0] in live
        if factor <= len(live):
            assert live.issuperset(replicas)
            live_racks = {rack_of[each] for each in live}
            assert len({rack_of[each] for each in replicas}) == min(factor, len(live_racks))
        else:
            assert live.issubset(replicas)


@settings(deadline=None)
@given(
    count=st.integers(1, 8),
    rounds=st.integers(1, 4),
    factor=st.integers(1, 5),
    seed=st.integers(0, 10_000),
    racks=st.integers(0, 4),
)
def test_what_holds_for_every_topic_of_a_kafka_cluster(
    count: int, rounds: int, factor: int, seed: int, racks: int
) -> None:
    """Measured on Kafka 4.3 with one to six brokers, with and without racks."""
    among = brokers(*(f"r{index % racks}" if racks else None for index in range(count)))
    placed = place(among, count * rounds, min(factor, count), seed=seed)
    racks_of = {each.broker_id: each.rack for each in among}
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders[each.broker_id] for each in among) <= 1
    for replicas in placed:
        assert len(set(replicas)) == len(replicas)
        distinct = {racks_of[each] for each in replicas}
        assert len(distinct) == min(len(replicas), len(set(racks_of.values())))
    if not racks:
        held = Counter(each for replicas in placed for each in replicas)
        assert max(held.values()) == min(held.values())
