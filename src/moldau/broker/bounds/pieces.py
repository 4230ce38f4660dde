"""Requests about very many partitions, cut into pieces that are short work each.

Invariant: every partition is in exactly one piece, and the pieces follow the order of the request.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from itertools import islice
from typing import Any, TypeVar

#: So many partitions are short work for a coordinator or a log.
PARTITIONS_AT_ONCE = 200

_T = TypeVar("_T")


def cut_topics(
    topics: Sequence[_T], partitions: str = "partitions", most: int = PARTITIONS_AT_ONCE
) -> Iterator[list[tuple[int, _T]]]:
    """Topics with their partitions, which are in the field of that name, in pieces of so many partitions.

    A topic goes with its place in the request; one with many partitions is in several pieces.
    """
    piece: list[tuple[int, _T]] = []
    size = 0
    for place, topic in enumerate(topics):
        all_partitions: list[Any] = getattr(topic, partitions)
        at = 0
        while True:
            part = all_partitions[at : at + most - size]
            at += len(part)
            some = copy(topic)
            setattr(some, partitions, part)
            piece.append((place, some))
            size += max(len(part), 1)
            if size >= most:
                yield piece
                piece, size = [], 0
            if at >= len(all_partitions):
                break
    if piece:
        yield piece


def cut(items: Sequence[_T], most: int = PARTITIONS_AT_ONCE) -> Iterator[list[_T]]:
    """A list in pieces of so many elements; none has no piece."""
    rest = iter(items)
    while piece := list(islice(rest, most)):
        yield piece
