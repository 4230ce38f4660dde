"""Where to begin and where to end: the forms in which a user says it, and the offsets of a query's progress.

Invariant: pure; words and JSON in, values out, with the connector's own forms: ``earliest``, ``latest``,
``{"topic": {"0": 23, "1": -1}}`` with -2 for the earliest and -1 for the latest. What is wrong is a
ValueError that shows how it should look.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from moldau.base.names import TopicPartition

EARLIEST = -2
LATEST = -1

#: Offsets, or timestamps, by partition.
PartitionValues: TypeAlias = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Earliest:
    pass


@dataclass(frozen=True, slots=True)
class Latest:
    pass


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition; -2 and -1 stand for the earliest and the latest."""

    offsets: PartitionValues


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record that is not older, in every partition."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """The same with a timestamp for each partition."""

    timestamps_ms: PartitionValues


Limit: TypeAlias = Earliest | Latest | AtOffsets | AtTimestamp | AtTimestamps


def parse_limit(option: str, text: str) -> Limit:
    """``earliest``, ``latest`` or offsets in JSON."""
    word = text.strip().lower()
    if word == "earliest":
        return Earliest()
    if word == "latest":
        return Latest()
    return AtOffsets(parse_offsets(option, text))


def parse_offsets(option: str, text: str) -> PartitionValues:
    """From the connector's JSON; ValueError that names the option."""
    example = '{"orders": {"0": 23, "1": -1}}'
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{option}: {text!r} is neither 'earliest', 'latest' nor JSON such as {example} ({error})"
        ) from None
    return offsets_from(given, f"{option}: expected JSON such as {example}, not {text!r}")


def offsets_from(given: Any, complaint: str) -> PartitionValues:
    """From what JSON of the form ``{topic: {partition: number}}`` holds; ValueError with the complaint."""
    found: PartitionValues = {}
    if not isinstance(given, Mapping):
        raise ValueError(complaint)
    for topic, partitions in given.items():
        if not isinstance(partitions, Mapping):
            raise ValueError(complaint)
        for partition, value in partitions.items():
            if not str(partition).isdecimal() or not isinstance(value, int) or isinstance(value, bool):
                raise ValueError(complaint)
            found[TopicPartition(str(topic), int(partition))] = value
    return found


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """The form that goes into Spark's checkpoints and progress events: the connector's own."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


#: Keys beside the topics of an end offset: where the batch begins, if that is not the end of the one before,
#: the name of the query (see ``query.name``), and the schemas that were inferred when it began.
RESET_KEY = "__moldau_reset"
QUERY_KEY = "__moldau_query"
SCHEMA_KEY = "__moldau_schema"


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a batch ends; a reset stands in it, so that a batch which is run again begins where it did."""

    ends: PartitionValues
    resets: PartitionValues = field(default_factory=dict)
    query: str = ""
    schema: str = ""

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = dict(offsets_to_json(self.ends))
        if self.resets:
            found[RESET_KEY] = offsets_to_json(self.resets)
        if self.query:
            found[QUERY_KEY] = self.query
        if self.schema:
            found[SCHEMA_KEY] = self.schema
        return found

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Progress":
        """ValueError for what another source has written."""
        complaint = f"this checkpoint was written by another source: {given}"
        ours = (RESET_KEY, QUERY_KEY, SCHEMA_KEY)
        topics = {name: value for name, value in given.items() if name not in ours}
        resets = offsets_from(given.get(RESET_KEY, {}), complaint)
        texts = (str(given.get(key, "")) for key in (QUERY_KEY, SCHEMA_KEY))
        return cls(offsets_from(topics, complaint), resets, *texts)


def parse_assignment(text: str) -> list[TopicPartition]:
    """From ``assign``: ``{"orders": [0, 1]}``."""
    complaint = f'assign: expected JSON such as {{"orders": [0, 1]}}, not {text!r}'
    try:
        given = json.loads(text)
    except json.JSONDecodeError:
        raise ValueError(complaint) from None
    found: list[TopicPartition] = []
    if not isinstance(given, Mapping):
        raise ValueError(complaint)
    for topic, partitions in given.items():
        if not isinstance(partitions, list) or not all(isinstance(p, int) and p >= 0 for p in partitions):
            raise ValueError(complaint)
        found += (TopicPartition(topic, partition) for partition in partitions)
    return found


def check_covered(
    option: str, limits: Iterable[TopicPartition], partitions: Iterable[TopicPartition]
) -> None:
    """A limit by partition must name exactly the partitions that are read, as the connector wants it."""
    named, read = set(limits), set(partitions)
    if missing := sorted(read - named):
        raise ValueError(f"{option} says nothing of {_list(missing)}: give every partition, -2 for its start")
    if unknown := sorted(named - read):
        raise ValueError(f"{option} names {_list(unknown)}, which this query does not read")


def _list(partitions: list[TopicPartition]) -> str:
    shown = ", ".join(map(str, partitions[:5]))
    return shown if len(partitions) <= 5 else f"{shown} and {len(partitions) - 5} more"
