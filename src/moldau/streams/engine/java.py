"""Two structures of Java whose order shows in Kafka's results: the priority queue and the hash map.

Invariant: equal elements leave the queue, and names leave the map, in the order in which Java's would.
"""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class PriorityQueue(Generic[Item]):
    """Java's binary heap. Python's ``heapq`` orders elements of equal priority otherwise."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[int, Item]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[tuple[int, Item]]:
        return iter(self._heap)

    def peek(self) -> tuple[int, Item] | None:
        return self._heap[0] if self._heap else None

    def add(self, priority: int, item: Item) -> None:
        heap = self._heap
        heap.append((priority, item))
        at = len(heap) - 1
        while at > 0:
            parent = (at - 1) >> 1
            if priority >= heap[parent][0]:
                break
            heap[at] = heap[parent]
            at = parent
        heap[at] = (priority, item)

    def poll(self) -> tuple[int, Item]:
        heap = self._heap
        first, last = heap[0], heap.pop()
        if heap:
            self._sift_down(last)
        return first

    def _sift_down(self, entry: tuple[int, Item]) -> None:
        heap, at, half = self._heap, 0, len(self._heap) >> 1
        while at < half:
            child = 2 * at + 1
            right = child + 1
            if right < len(heap) and heap[child][0] > heap[right][0]:
                child = right
            if entry[0] <= heap[child][0]:
                break
            heap[at] = heap[child]
            at = child
        heap[at] = entry

    def restore(self, heap: Iterable[tuple[int, Item]]) -> None:
        self._heap = list(heap)


def hash_order(names: Iterable[str]) -> list[str]:
    """The names in the order in which a ``HashMap`` iterates over them."""
    distinct = list(dict.fromkeys(names))
    size = 16
    while len(distinct) > size * 3 // 4:
        size *= 2
    return sorted(distinct, key=lambda name: _spread(name) & (size - 1))


def _spread(name: str) -> int:
    code = 0
    units = name.encode("utf-16-be")
    for at in range(0, len(units), 2):
        code = (31 * code + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return code ^ (code >> 16)
