"""Looks for what must never happen in the history of a cluster, after Jepsen's workload for Kafka.

Every value that is sent is unique. Producers say what was acknowledged at which offset, what failed for
certain and what is not known; consumers say what they read, in order. From that follows what was lost,
doubled, reordered, read though it was aborted, or different for two readers.

Invariant: pure. A checker that finds nothing proves nothing about what was not asked: ``checked`` says how
much there was to check.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Fate(Enum):
    ACKNOWLEDGED = "acknowledged"
    #: It cannot have been written, or its transaction was aborted.
    FAILED = "failed"
    #: No answer came: both is right.
    UNKNOWN = "unknown"


class Sent(NamedTuple):
    """One value that a producer sent to a partition; the offset is -1 unless it was acknowledged with one."""

    producer: str
    partition: int
    value: str
    fate: Fate
    offset: int = -1


class Polled(NamedTuple):
    """One record that a consumer got."""

    consumer: str
    partition: int
    offset: int
    value: str


@dataclass(slots=True)
class History:
    sent: list[Sent] = field(default_factory=list)
    polled: list[Polled] = field(default_factory=list)

    @property
    def checked(self) -> str:
        fates = Counter(each.fate.value for each in self.sent)
        return f"{len(self.sent)} sent ({dict(fates)}), {len(self.polled)} polled"


def anomalies(history: History, *, idempotent: bool = True) -> list[str]:
    """Everything that must not be, a sentence each; after the end everything was polled by somebody."""
    found: list[str] = []
    found += _inconsistent_offsets(history)
    found += _lost(history)
    found += _aborted_reads(history)
    found += _out_of_nowhere(history)
    found += _reordered_sends(history)
    found += _jumps(history.polled)
    if idempotent:
        found += _duplicates(history.polled)
    return found


def _inconsistent_offsets(history: History) -> list[str]:
    """One offset of a partition has one value for ever, whoever reads it and whenever."""
    values: dict[tuple[int, int], set[str]] = defaultdict(set)
    for polled in history.polled:
        values[polled.partition, polled.offset].add(polled.value)
    for sent in history.sent:
        if sent.fate is Fate.ACKNOWLEDGED and sent.offset >= 0:
            values[sent.partition, sent.offset].add(sent.value)
    return [
        f"inconsistent: offset {offset} of partition {partition} has {sorted(several)}"
        for (partition, offset), several in sorted(values.items())
        if len(several) > 1
    ]


def _lost(history: History) -> list[str]:
    read = {polled.value for polled in history.polled}
    return [
        f"lost: {sent.value} of {sent.producer} was acknowledged at {sent.partition}:{sent.offset}"
        for sent in history.sent
        if sent.fate is Fate.ACKNOWLEDGED and sent.value not in read
    ]


def _aborted_reads(history: History) -> list[str]:
    read = {polled.value for polled in history.polled}
    return [
        f"aborted read: {sent.value} of {sent.producer} failed and was read"
        for sent in history.sent
        if sent.fate is Fate.FAILED and sent.value in read
    ]


def _out_of_nowhere(history: History) -> list[str]:
    known = {sent.value for sent in history.sent}
    return [
        f"out of nowhere: {value}" for value in sorted({polled.value for polled in history.polled} - known)
    ]


def _duplicates(polled: Iterable[Polled]) -> list[str]:
    places: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for each in polled:
        places[each.value].add((each.partition, each.offset))
    return [
        f"duplicate: {value} at {sorted(several)}"
        for value, several in sorted(places.items())
        if len(several) > 1
    ]


def _reordered_sends(history: History) -> list[str]:
    """What a producer sends later to a partition has a higher offset."""
    found = []
    last: dict[tuple[str, int], Sent] = {}
    for sent in history.sent:
        if sent.fate is not Fate.ACKNOWLEDGED or sent.offset < 0:
            continue
        before = last.get((sent.producer, sent.partition))
        if before is not None and before.offset >= sent.offset:
            found.append(
                f"reordered: {sent.producer} got {sent.offset} for {sent.value} after {before.offset} for "
                f"{before.value} in partition {sent.partition}"
            )
        last[sent.producer, sent.partition] = sent
    return found


def _jumps(polled: Iterable[Polled]) -> list[str]:
    """A consumer with fixed partitions reads upwards, and passes over nothing that another one reads."""
    polled = list(polled)
    known: dict[int, set[int]] = defaultdict(set)
    for each in polled:
        known[each.partition].add(each.offset)
    ordered = {partition: sorted(offsets) for partition, offsets in known.items()}
    places = {
        (partition, offset): place
        for partition, offsets in ordered.items()
        for place, offset in enumerate(offsets)
    }
    found = []
    last: dict[tuple[str, int], int] = {}
    for each in polled:
        place = places[each.partition, each.offset]
        before = last.get((each.consumer, each.partition))
        where = f"{each.consumer} in partition {each.partition}"
        if before is not None and place <= before:
            found.append(f"back: {where} read {each.offset} after {ordered[each.partition][before]}")
        elif place != (0 if before is None else before + 1):
            passed = ordered[each.partition][0 if before is None else before + 1]
            found.append(f"skipped: {where} passed over {passed} before {each.offset}")
        last[each.consumer, each.partition] = place
    return found
