"""Structures of Java whose order shows in results."""

from hypothesis import given
from hypothesis import strategies as st

from moldau.streams.engine.java import PriorityQueue, TreeSet, hash_order


@given(st.lists(st.integers(0, 5)))
def test_the_queue_gives_by_priority(priorities: list[int]) -> None:
    queue: PriorityQueue[int] = PriorityQueue()
    for number, priority in enumerate(priorities):
        queue.add(priority, number)
    out = [queue.poll() for _ in range(len(queue))]
    assert [priority for priority, _ in out] == sorted(priorities)
    assert sorted(number for _, number in out) == list(range(len(priorities)))


def test_equal_priorities_leave_as_in_java() -> None:
    """What java.util.PriorityQueue gives for 1 a, 1 b, 1 c, 0 d."""
    queue: PriorityQueue[str] = PriorityQueue()
    for priority, item in [(1, "a"), (1, "b"), (1, "c"), (0, "d")]:
        queue.add(priority, item)
    assert [queue.poll()[1] for _ in range(4)] == ["d", "b", "c", "a"]


def test_names_leave_a_hash_map_as_in_java() -> None:
    """ "a" to "e" have the hash codes 97 to 101, so buckets 1 to 5; "q" shares a bucket with "a"."""
    assert hash_order(["e", "q", "a", "d"]) == ["q", "a", "d", "e"]


@given(st.lists(st.integers(0, 50)))
def test_the_tree_gives_by_order_and_each_once(numbers: list[int]) -> None:
    tree: TreeSet[int] = TreeSet(lambda one, other: one - other)
    for number in numbers:
        tree.add(number)
    assert list(tree) == sorted(set(numbers))
