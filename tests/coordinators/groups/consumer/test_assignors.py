"""The assignors of the broker: balance, stickiness, and nobody gets what it did not ask for."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.coordinators.groups.consumer.assignors import ASSIGNORS, MemberSpec, Partition, range_, uniform

A, B, C = (name * 16 for name in (b"a", b"b", b"c"))
TOPICS = [A, B, C]


def partitions(topic: bytes, *indexes: int) -> frozenset[Partition]:
    return frozenset((topic, index) for index in indexes)


def test_uniform_gives_everybody_the_same_number() -> None:
    members = {name: MemberSpec(frozenset({A, B})) for name in ("m1", "m2", "m3")}
    sizes = [len(share) for share in uniform(members, {A: 4, B: 4}).values()]
    assert sorted(sizes) == [2, 3, 3]


def test_uniform_leaves_with_members_what_they_have() -> None:
    first = uniform({"m1": MemberSpec(frozenset({A}))}, {A: 3})
    assert first == {"m1": partitions(A, 0, 1, 2)}
    second = uniform(
        {"m1": MemberSpec(frozenset({A}), first["m1"]), "m2": MemberSpec(frozenset({A}))}, {A: 3}
    )
    assert second == {"m1": partitions(A, 0, 1), "m2": partitions(A, 2)}


def test_uniform_with_members_that_read_different_topics() -> None:
    members = {
        "both": MemberSpec(frozenset({A, B}), partitions(A, 0, 1) | partitions(B, 0, 1)),
        "only-a": MemberSpec(frozenset({A})),
    }
    assert uniform(members, {A: 2, B: 2}) == {"both": partitions(B, 0, 1), "only-a": partitions(A, 0, 1)}


def test_uniform_takes_away_what_is_not_read_or_not_there_any_more() -> None:
    members = {"m": MemberSpec(frozenset({A}), partitions(A, 0, 7) | partitions(B, 0))}
    assert uniform(members, {A: 1, B: 1}) == {"m": partitions(A, 0)}
    assert uniform({**members, "n": MemberSpec(frozenset())}, {A: 1, B: 1})["m"] == partitions(A, 0)


def test_range_gives_neighbours_and_splits_topics_alike() -> None:
    members = {name: MemberSpec(frozenset({A, B})) for name in ("m1", "m2")}
    assert range_(members, {A: 3, B: 3}) == {
        "m1": partitions(A, 0, 1) | partitions(B, 0, 1),
        "m2": partitions(A, 2) | partitions(B, 2),
    }


def test_range_orders_static_members_by_their_instance() -> None:
    members = {
        "a": MemberSpec(frozenset({A})),
        "z": MemberSpec(frozenset({A}), instance_id="i1"),
        "y": MemberSpec(frozenset({A}), instance_id="i2"),
    }
    assert range_(members, {A: 3}) == {
        "z": partitions(A, 0),
        "y": partitions(A, 1),
        "a": partitions(A, 2),
    }


@pytest.mark.parametrize("name", ASSIGNORS)
def test_without_members_or_topics(name: str) -> None:
    assert ASSIGNORS[name]({}, {A: 1}) == {}
    assert ASSIGNORS[name]({"m": MemberSpec(frozenset({A}))}, {}) == {"m": frozenset()}


def groups() -> st.SearchStrategy[dict[str, MemberSpec]]:
    spec = st.builds(
        MemberSpec,
        st.frozensets(st.sampled_from(TOPICS)),
        st.frozensets(st.tuples(st.sampled_from(TOPICS), st.integers(0, 8))),
        st.none() | st.sampled_from(["i1", "i2"]),
    )
    return st.dictionaries(st.sampled_from([f"m{n}" for n in range(6)]), spec, min_size=1)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    groups(), st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 7)), st.sampled_from(list(ASSIGNORS))
)
def test_everything_is_assigned_once_to_somebody_who_reads_it(
    members: dict[str, MemberSpec], topics: dict[bytes, int], name: str
) -> None:
    made = ASSIGNORS[name](members, topics)
    assert made.keys() == members.keys()
    owners = Counter(partition for share in made.values() for partition in share)
    read = {topic for member in members.values() for topic in member.subscribed}
    wanted = {(topic, index) for topic in read & topics.keys() for index in range(topics[topic])}
    assert set(owners) == wanted
    assert max(owners.values(), default=1) == 1
    for member_id, share in made.items():
        assert {topic for topic, _ in share} <= members[member_id].subscribed
    assert ASSIGNORS[name](dict(reversed(members.items())), topics) == made


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(groups(), st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 7), min_size=1))
def test_uniform_is_balanced_topic_by_topic_and_keeps_what_it_made(
    members: dict[str, MemberSpec], topics: dict[bytes, int]
) -> None:
    made = uniform(members, topics)
    for topic in topics:
        readers = [name for name, member in members.items() if topic in member.subscribed]
        owners = [name for name in readers if any(each[0] == topic for each in made[name])]
        if owners:
            assert max(len(made[name]) for name in owners) - min(len(made[name]) for name in readers) <= 1
    again = {name: member._replace(current=made[name]) for name, member in members.items()}
    assert uniform(again, topics) == made
