"""Which task reads what: offset ranges, split and bounded.

Invariant: pure; offsets in, ranges out. Every offset of [start, end) is in exactly one range.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from moldau.base.names import TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of one partition with an offset in [start, end)."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def ranges_between(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> list[OffsetRange]:
    """One range for each partition that has something."""
    return [
        OffsetRange(tp.topic, tp.partition, starts[tp], end)
        for tp, end in sorted(ends.items())
        if tp in starts and end > starts[tp]
    ]


def split(
    ranges: list[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """The same records in at least ``min_partitions`` ranges, none above ``max_records``.

    Larger ranges get more parts, so that tasks take about the same time.
    """
    if max_records is not None:
        ranges = [part for each in ranges for part in _cut(each, -(-each.size // max_records))]
    total = sum(each.size for each in ranges)
    if min_partitions is None or len(ranges) >= min_partitions or total == 0:
        return ranges
    parts = {each: max(each.size * min_partitions // total, 1) for each in ranges}
    # What rounding took away goes to the ranges whose parts are the largest.
    while sum(parts.values()) < min_partitions:
        fullest = max(parts, key=lambda each: each.size / parts[each])
        if parts[fullest] >= fullest.size:
            break
        parts[fullest] += 1
    return [part for each in ranges for part in _cut(each, parts[each])]


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    parts = max(min(parts, whole.size), 1)
    edges = [whole.start + whole.size * index // parts for index in range(parts + 1)]
    return [OffsetRange(whole.topic, whole.partition, start, end) for start, end in pairwise(edges)]


def admit(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], limit: int
) -> dict[TopicPartition, int]:
    """Ends with at most ``limit`` records in all, shared in proportion to what waits in each partition.

    A partition with little to read is read to its end, and its share goes to the others.
    """
    waiting = {tp: max(end - starts.get(tp, end), 0) for tp, end in ends.items()}
    total = sum(waiting.values())
    if total <= limit:
        return dict(ends)
    admitted = {tp: size * limit // total for tp, size in waiting.items()}
    # Rounding must not starve a partition: what is left goes round, the fullest first.
    rest = limit - sum(admitted.values())
    for tp in sorted(waiting, key=lambda tp: (admitted[tp] > 0, -waiting[tp])):
        if rest and admitted[tp] < waiting[tp]:
            admitted[tp] += 1
            rest -= 1
    return {tp: starts.get(tp, end) + admitted[tp] for tp, end in ends.items()}
