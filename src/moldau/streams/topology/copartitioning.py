"""Topics that are joined must have the same number of partitions, or equal keys would not meet.

Invariant: repartition topics without a number of their own take the number of what they are joined with; what
cannot be is said in Kafka's words, with the fix.
"""

from collections.abc import Mapping
from typing import NamedTuple

from moldau.streams.errors import TopologyError


class PartitionCount(NamedTuple):
    """How many partitions a topic has: None where it is not there, or where nobody asked for a number yet."""

    partitions: int | None
    is_repartition: bool = False


def repartition_counts(topics: Mapping[str, PartitionCount]) -> dict[str, int]:
    """Checks one group of topics; gives the numbers of those repartition topics that had none."""
    for topic, each in topics.items():
        if each.partitions is None and not each.is_repartition:
            raise LookupError(f"Topic not found: {topic}")
    sources = {topic: each.partitions for topic, each in topics.items() if not each.is_repartition}
    asked = {
        topic: each.partitions
        for topic, each in topics.items()
        if each.is_repartition and each.partitions is not None
    }
    if len(set(sources.values())) > 1:
        raise TopologyError(
            f"Topics not co-partitioned: [{_shown(sources)}]",
            "Give them the same number of partitions, or call repartition(…) on one of the streams.",
        )
    if sources:
        (count,) = set(sources.values())
        for topic, number in asked.items():
            if number != count:
                raise TopologyError(
                    f"Number of partitions [{number}] of repartition topic [{topic}] doesn't match number of"
                    f" partitions [{count}] of the source topic.",
                    f"Ask for {count} in repartition(…), or leave the number out.",
                )
    elif len(set(asked.values())) > 1:
        raise TopologyError(
            f"Following topics do not have the same number of partitions: [{_shown(asked)}]",
            "Ask for the same number in both calls of repartition(…).",
        )
    chosen = next(iter({*sources.values(), *asked.values()} - {None}), None)
    missing = [topic for topic, each in topics.items() if each.is_repartition and each.partitions is None]
    return dict.fromkeys(missing, chosen) if chosen is not None else {}


def _shown(counts: Mapping[str, int | None]) -> str:
    return "{" + ", ".join(f"{topic}={counts[topic]}" for topic in sorted(counts)) + "}"
