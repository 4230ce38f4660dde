"""Long lists in pieces: everything is in one of them, in order."""

from types import SimpleNamespace

import pytest

from moldau.broker.bounds.pieces import cut, cut_topics


@pytest.mark.parametrize("most", [1, 2, 3, 7, 100])
def test_every_partition_is_in_one_piece(most: int) -> None:
    sizes = [3, 0, 1, 8, 0, 2]
    topics = [SimpleNamespace(name=str(size), partitions=list(range(size))) for size in sizes]
    found: dict[int, list[int]] = {}
    for piece in cut_topics(topics, most=most):
        assert sum(max(len(topic.partitions), 1) for _, topic in piece) <= most
        for place, topic in piece:
            assert topic.name == topics[place].name
            found.setdefault(place, []).extend(topic.partitions)
    assert found == {place: list(range(size)) for place, size in enumerate(sizes)}
    assert [len(topic.partitions) for topic in topics] == sizes, "the request itself is not changed"


def test_lists() -> None:
    assert list(cut([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]
    assert list(cut([], 2)) == []
