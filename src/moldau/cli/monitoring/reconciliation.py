"""Audit: which records of a topic has an application not processed, by the ids that it wrote down.

Every event has an id: its key, a header, or a field of its value. The application writes the ids that it has
processed to a file, one in a line; whoever audits reads the topic and compares.

Invariant: pure; ids are kept in memory, no more of them than the bound allows.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class TooManyIds(ValueError):
    """More ids than may be kept."""


class Seen(NamedTuple):
    """Where an id was seen first."""

    partition: int
    offset: int


def id_of(
    where: str, key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
) -> str | None:
    """The id of a record: ``key``, ``header:NAME`` or ``value:FIELD`` (of a JSON object); None without
    one.
    """
    kind, _, name = where.partition(":")
    if kind == "key":
        return None if key is None else key.decode("utf-8", "replace")
    if kind == "header":
        found = next((content for each, content in headers if each == name), None)
        return None if found is None else found.decode("utf-8", "replace")
    try:
        inner: Any = json.loads(value or b"")
        for part in name.split("."):
            inner = inner[part]
    except (ValueError, KeyError, TypeError):
        return None
    return inner if isinstance(inner, str) else json.dumps(inner)


@dataclass(slots=True)
class Reconciliation:
    most_ids: int
    processed: Counter[str] = field(default_factory=Counter)
    in_topic: dict[str, Seen] = field(default_factory=dict)
    records: int = 0
    repeated: int = 0
    without_id: int = 0

    def add_processed(self, lines: Iterable[str]) -> None:
        """Lines with one id each; of a line of JSON the field ``id`` is taken."""
        for line in lines:
            text = line.strip()
            if not text:
                continue
            if text.startswith("{"):
                try:
                    text = str(json.loads(text)["id"])
                except (ValueError, KeyError):
                    continue
            self.processed[text] += 1
            self._check(len(self.processed))

    def add_record(self, identifier: str | None, partition: int, offset: int) -> None:
        self.records += 1
        if identifier is None:
            self.without_id += 1
        elif identifier in self.in_topic:
            self.repeated += 1
        else:
            self.in_topic[identifier] = Seen(partition, offset)
            self._check(len(self.in_topic))

    def _check(self, count: int) -> None:
        if count > self.most_ids:
            raise TooManyIds(f"there are more than {self.most_ids} ids")

    @property
    def missing(self) -> dict[str, Seen]:
        """Ids of the topic that were not processed."""
        return {each: seen for each, seen in self.in_topic.items() if each not in self.processed}

    @property
    def unknown(self) -> list[str]:
        """Ids that were processed and are not in the topic."""
        return [each for each in self.processed if each not in self.in_topic]

    @property
    def processed_twice(self) -> list[str]:
        return [each for each, times in self.processed.items() if times > 1 and each in self.in_topic]
