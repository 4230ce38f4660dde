"""Connectors by themselves in a test: what a source reads, and what a sink writes, without a worker or a
broker.

found = read(FileStreamSource, {"file": str(path), "topic": "lines"}, count=2)
assert [record.value for record in found.records] == ["one", "two"]
again = read(FileStreamSource, …, count=1, places=found.places)      # goes on where it was

Invariant: settings are checked as a worker checks them, and a task is stopped whatever happens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from moldau.base.clock import SystemClock
from moldau.connect.config.validation import validate
from moldau.connect.connector import (
    Connector,
    Place,
    SinkConnector,
    SinkTaskContext,
    SourceConnector,
    SourceTaskContext,
)
from moldau.connect.errors import ConfigException
from moldau.connect.records import SinkRecord, SourceRecord
from moldau.connect.worker.offsets import offset_key

_NAME = "test"


@dataclass(frozen=True, slots=True)
class Found:
    """What a source gave, and where it is now."""

    records: list[SourceRecord]
    #: Places by the key that a worker would keep them under.
    places: dict[str, Place] = field(default_factory=dict)


def read(
    connector: type[SourceConnector],
    config: Mapping[str, str],
    *,
    count: int,
    places: Mapping[str, Place] | None = None,
    polls: int = 1000,
) -> Found:
    """At least ``count`` records of a source's tasks, or what came in ``polls`` polls; ``places`` are of an
    earlier read."""
    made = connector(_checked(connector, config))
    known = dict(places or {})
    records: list[SourceRecord] = []
    settings = made.task_settings(_max_tasks(config))
    tasks = [made.make_task() for _ in settings]
    try:
        for number, task in enumerate(tasks):
            context = SourceTaskContext(
                _NAME, number, lambda partition: known.get(offset_key(_NAME, partition)), SystemClock().now_ms
            )
            task.start(settings[number], context)
        for _ in range(polls):
            for task in tasks:
                records += task.poll()
                task.written()
            if len(records) >= count:
                break
    finally:
        for task in tasks:
            task.stop()
    for record in records:
        if record.source_partition is not None and record.source_offset is not None:
            known[offset_key(_NAME, record.source_partition)] = record.source_offset
    return Found(records, known)


def write(connector: type[SinkConnector], config: Mapping[str, str], records: Sequence[SinkRecord]) -> None:
    """Gives records to one task of a sink, as one batch, and makes sure that they are kept."""
    made = connector(_checked(connector, {"topics": "test", **config}))
    task = made.make_task()
    try:
        task.start(made.task_settings(1)[0], SinkTaskContext(_NAME, 0))
        task.put(records)
        task.flush()
    finally:
        task.stop()


def _checked(connector: type[Connector], config: Mapping[str, str]) -> dict[str, str]:
    given = {"name": _NAME, "connector.class": connector.class_name, **config}
    refusal = validate(connector, given).refusal()
    if refusal is not None:
        raise ConfigException(refusal)
    return given


def _max_tasks(config: Mapping[str, str]) -> int:
    return int(config.get("tasks.max", "1"))
