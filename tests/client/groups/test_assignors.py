"""Sharing partitions among members: the golden assignments, and what holds for all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.base.names import TopicPartition
from moldau.client.groups.assignors import ASSIGNORS, assign_range, assign_round_robin

TWO_TOPICS = {"t1": 3, "t2": 3}
BOTH = {"c1": ["t1", "t2"], "c2": ["t1", "t2"]}


def partitions(**topics: list[int]) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for topic, indexes in topics.items() for index in indexes]


def test_range_of_two_topics() -> None:
    assert assign_range(BOTH, TWO_TOPICS) == {
        "c1": partitions(t1=[0, 1], t2=[0, 1]),
        "c2": partitions(t1=[2], t2=[2]),
    }


def test_round_robin_of_two_topics() -> None:
    assert assign_round_robin(BOTH, TWO_TOPICS) == {
        "c1": partitions(t1=[0, 2], t2=[1]),
        "c2": partitions(t1=[1], t2=[0, 2]),
    }


def test_one_to_five_members_of_a_topic_with_four_partitions() -> None:
    sizes = {1: [4], 2: [2, 2], 3: [2, 1, 1], 4: [1, 1, 1, 1], 5: [1, 1, 1, 1, 0]}
    for count, expected in sizes.items():
        members = {f"c{number}": ["t1"] for number in range(count)}
        for assign in ASSIGNORS.values():
            assert [len(share) for share in assign(members, {"t1": 4}).values()] == expected


def test_members_with_different_topics() -> None:
    members = {"a": ["t1"], "b": ["t1", "t2"], "c": []}
    assert assign_range(members, TWO_TOPICS) == {
        "a": partitions(t1=[0, 1]),
        "b": partitions(t1=[2], t2=[0, 1, 2]),
        "c": [],
    }
    assert assign_round_robin(members, TWO_TOPICS) == {
        "a": partitions(t1=[0, 2]),
        "b": partitions(t1=[1], t2=[0, 1, 2]),
        "c": [],
    }


TOPICS = st.sampled_from(["t1", "t2", "t3"])


@pytest.mark.slow
@given(
    members=st.dictionaries(st.text(max_size=3), st.lists(TOPICS, unique=True), max_size=6),
    counts=st.dictionaries(TOPICS, st.integers(0, 7)),
)
def test_every_partition_has_one_owner_who_wants_it(
    members: dict[str, list[str]], counts: dict[str, int]
) -> None:
    wanted = {topic for topics in members.values() for topic in topics}
    expected = sorted(
        TopicPartition(t, i) for t, count in counts.items() if t in wanted for i in range(count)
    )
    for assign in ASSIGNORS.values():
        shares = assign(members, counts)
        assert sorted(p for share in shares.values() for p in share) == expected
        assert all(p.topic in members[member] for member, share in shares.items() for p in share)
