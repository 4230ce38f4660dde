"""What a worker tells of its connectors at ``/metrics``: those that it runs itself, so that sums over workers
are right.

Invariant: read from the statuses and counts that there are; nothing is kept for it.
"""

from collections.abc import Iterator

from moldau.connect.worker.herder import Herder
from moldau.connect.worker.statuses import State, TaskCounts
from moldau.metrics.connect_metrics import (
    CONNECTOR_FAILED,
    CONNECTORS,
    RECORDS,
    TASK_STATES,
    TASKS,
)
from moldau.metrics.readings import Reading, Sources, one

#: Which of a task's counts each metric shows, by the kind of connector that has it.
_COUNTS = {
    "source-record-poll-total": ("source", "read"),
    "source-record-write-total": ("source", "written"),
    "sink-record-read-total": ("sink", "read"),
    "sink-record-send-total": ("sink", "written"),
    "total-record-errors": ("", "errors"),
    "total-retries": ("", "retries"),
    "total-records-skipped": ("", "skipped"),
    "deadletterqueue-produce-requests": ("", "dead_letters"),
}


class WorkerMetrics:
    def __init__(self, herder: Herder) -> None:
        self._herder = herder

    def register(self, sources: Sources) -> None:
        sources.add("kafka.connect", "connect-worker-metrics", self.readings)

    def readings(self) -> Iterator[Reading]:
        statuses = self._herder.statuses
        names = [name for name in self._herder.names() if self._herder.runs(name)]
        tasks = {name: statuses.tasks(name) for name in names}
        yield one(CONNECTORS, len(names))
        yield one(TASKS, sum(map(len, tasks.values())))
        for state, metric in TASK_STATES.items():
            counted = {
                name: sum(each.state.value == state for each in tasks[name].values()) for name in names
            }
            yield Reading(metric, [((name,), found) for name, found in counted.items()])
        failed = {
            name: status is not None and status.state is State.FAILED
            for name in names
            for status in [statuses.connector(name)]
        }
        yield Reading(CONNECTOR_FAILED, [((name,), int(found)) for name, found in failed.items()])
        yield from self._records([(name, task) for name in names for task in tasks[name]])

    def _records(self, tasks: list[tuple[str, int]]) -> Iterator[Reading]:
        kinds: dict[str, list[tuple[tuple[str, str], TaskCounts]]] = {}
        for name, task in tasks:
            counts = self._herder.statuses.counts(name, task)
            for kind in ("", self._herder.kind(self._herder.config(name))):
                kinds.setdefault(kind, []).append(((name, str(task)), counts))
        for attribute, (kind, count) in _COUNTS.items():
            found = [(keys, int(getattr(counts, count))) for keys, counts in kinds.get(kind, ())]
            yield Reading(RECORDS[attribute], found)
