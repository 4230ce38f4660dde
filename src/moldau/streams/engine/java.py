"""Structures of Java whose order shows in Kafka's results: the priority queue, the hash map, the tree set.

Invariant: equal elements leave the queue, and names leave the map, in the order in which Java's would.
"""

from collections.abc import Callable, Iterable, Iterator
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


class _Entry(Generic[Item]):
    __slots__ = ("is_red", "item", "left", "parent", "right")

    def __init__(self, item: Item, parent: "_Entry[Item] | None") -> None:
        self.item = item
        self.parent = parent
        self.left: _Entry[Item] | None = None
        self.right: _Entry[Item] | None = None
        self.is_red = True


class TreeSet(Generic[Item]):
    """Java's red-black tree: where items go that change their order later depends on its rotations."""

    __slots__ = ("_compare", "_root")

    def __init__(self, compare: Callable[[Item, Item], int]) -> None:
        self._compare = compare
        self._root: _Entry[Item] | None = None

    def __iter__(self) -> Iterator[Item]:
        above: list[_Entry[Item]] = []
        at = self._root
        while above or at is not None:
            while at is not None:
                above.append(at)
                at = at.left
            entry = above.pop()
            yield entry.item
            at = entry.right

    def add(self, item: Item) -> None:
        parent, at, order = None, self._root, 0
        while at is not None:
            order = self._compare(item, at.item)
            if order == 0:
                return
            parent, at = at, at.left if order < 0 else at.right
        entry = _Entry(item, parent)
        if parent is None:
            self._root = entry
        elif order < 0:
            parent.left = entry
        else:
            parent.right = entry
        self._balance(entry)

    def _balance(self, entry: _Entry[Item]) -> None:
        while (parent := entry.parent) is not None and parent.is_red:
            above = parent.parent
            assert above is not None  # the root is black
            side, other = ("left", "right") if parent is above.left else ("right", "left")
            uncle = getattr(above, other)
            if uncle is not None and uncle.is_red:
                parent.is_red = uncle.is_red = False
                above.is_red = True
                entry = above
                continue
            if entry is getattr(parent, other):
                entry = parent
                self._rotate(entry, side, other)
                parent = entry.parent
                assert parent is not None
            parent.is_red = False
            above.is_red = True
            self._rotate(above, other, side)
        assert self._root is not None
        self._root.is_red = False

    def _rotate(self, entry: _Entry[Item], side: str, other: str) -> None:
        """Moves an entry down to a side; its child on the other side takes its place."""
        child = getattr(entry, other)
        inner = getattr(child, side)
        setattr(entry, other, inner)
        if inner is not None:
            inner.parent = entry
        child.parent = entry.parent
        if entry.parent is None:
            self._root = child
        elif entry is entry.parent.left:
            entry.parent.left = child
        else:
            entry.parent.right = child
        setattr(child, side, entry)
        entry.parent = child


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
