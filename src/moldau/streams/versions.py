"""Two versions of a program over the same records, compared result by result.

Both begin with empty state at the first of the records, and nothing is written. Results are compared by topic
and key, in their order: what comes between results of other keys does not count.

Invariant: no version sees anything of the other; the records of all partitions are taken by their time.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from moldau.client import END, READ_COMMITTED, Cluster, Consumer, TopicPartition
from moldau.client.consumer.consumer import Start
from moldau.client.consumer.fetched import ConsumerRecord
from moldau.streams.test_driver import TestDriver
from moldau.streams.topology.topology import Topology

#: A result that only one version gives.
MISSING = "(none)"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first result of a key on which the versions do not agree; MISSING where one has none."""

    key: Any
    #: How many results of the key were the same before.
    after: int
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class TopicDifference:
    topic: str
    same: int
    only_old: int
    only_new: int
    #: The first of each key.
    differences: tuple[Difference, ...]


def results_of(topology: Topology, records: Iterable[ConsumerRecord]) -> dict[str, dict[Any, list[Any]]]:
    """Value and time of every result, by topic and by key."""
    found: dict[str, dict[Any, list[Any]]] = defaultdict(lambda: defaultdict(list))
    topics = source_topics(topology)
    with TestDriver(topology, decoding_errors="continue", processing_errors="continue") as driver:
        for each in records:
            if each.topic not in topics:
                continue
            for output in driver.pipe_raw_input(
                each.topic, each.key, each.value, each.timestamp, each.headers
            ):
                found[output.topic][_hashable(output.key)].append((output.value, output.timestamp))
    return found


def compare(old: Topology, new: Topology, records: Sequence[ConsumerRecord]) -> tuple[TopicDifference, ...]:
    """A row for each topic that either version writes."""
    before, after = results_of(old, records), results_of(new, records)
    return tuple(
        _topic(name, before.get(name, {}), after.get(name, {})) for name in sorted({*before, *after})
    )


def _topic(name: str, before: dict[Any, list[Any]], after: dict[Any, list[Any]]) -> TopicDifference:
    same = only_old = only_new = 0
    differences = []
    for key in sorted({*before, *after}, key=repr):
        olds, news = before.get(key, []), after.get(key, [])
        equal = next((n for n, (a, b) in enumerate(zip(olds, news, strict=False)) if a != b), None)
        agreed = min(len(olds), len(news)) if equal is None else equal
        same += agreed
        only_old += len(olds) - agreed
        only_new += len(news) - agreed
        for one, other in zip_longest(olds[agreed : agreed + 1], news[agreed : agreed + 1]):
            pair = [MISSING if each is None else each[0] for each in (one, other)]
            differences.append(Difference(key, agreed, *pair))
    return TopicDifference(name, same, only_old, only_new, tuple(differences))


def _hashable(key: Any) -> Any:
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key


def source_topics(topology: Topology) -> list[str]:
    """The topics that a program reads and does not write itself."""
    own = set(topology.repartition_topics)
    return sorted({topic for each in topology.sources() for topic in each.topics} - own)


async def records_since(cluster: Cluster, topics: Iterable[str], since_ms: int) -> list[ConsumerRecord]:
    """The records of topics that are not older, by their time."""
    kept: dict[TopicPartition, list[ConsumerRecord]] = {}
    for name in topics:
        topic = await cluster.topic(name)
        kept |= {TopicPartition(name, each.index): [] for each in topic.partitions}
    async with Consumer(cluster, isolation_level=READ_COMMITTED) as consumer:
        ends = await consumer.offsets_of(dict.fromkeys(kept, END))
        await consumer.assign(dict.fromkeys(kept, Start(timestamp=since_ms)))
        async for batch in consumer.batches(until=ends):
            own, end = kept[batch.topic_partition], ends[batch.topic_partition]
            own += [
                each for each in batch.consumer_records() if each.offset < end and each.timestamp >= since_ms
            ]
    return list(by_time(kept.values()))


def by_time(partitions: Iterable[list[ConsumerRecord]]) -> Iterator[ConsumerRecord]:
    """One order of all records: always the earliest of those that are next in their partitions."""
    heads = [(own[0].timestamp, number, 0, own) for number, own in enumerate(partitions) if own]
    heapq.heapify(heads)
    while heads:
        _, number, at, own = heads[0]
        yield own[at]
        if at + 1 < len(own):
            heapq.heapreplace(heads, (own[at + 1].timestamp, number, at + 1, own))
        else:
            heapq.heappop(heads)
