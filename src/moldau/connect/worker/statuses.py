"""What connectors and tasks are doing, as REST shows it, and which topics they use."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class State(Enum):
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    UNASSIGNED = "UNASSIGNED"
    RESTARTING = "RESTARTING"


@dataclass(frozen=True, slots=True)
class Status:
    state: State
    worker_id: str
    version: str | None
    trace: str | None = None

    def node(self) -> dict[str, Any]:
        node: dict[str, Any] = {
            "state": self.state.value,
            "worker_id": self.worker_id,
            "version": self.version,
        }
        return node if self.trace is None else {**node, "trace": self.trace}


@dataclass(slots=True)
class TaskCounts:
    """Records of one task since the worker began, also through restarts of the task."""

    #: From the other system or from topics; into topics or the other system.
    read: int = 0
    written: int = 0
    #: A step failed for in the end; steps that were tried again.
    errors: int = 0
    retries: int = 0
    skipped: int = 0
    dead_letters: int = 0

    def since(self, before: "TaskCounts") -> dict[str, int]:
        """What has come, by name; noughts are left out."""
        found = {name: getattr(self, name) - getattr(before, name) for name in self.__slots__}
        return {name: more for name, more in found.items() if more}

    def add(self, more: Mapping[str, int]) -> None:
        for name, number in more.items():
            setattr(self, name, getattr(self, name) + number)


class Statuses:
    """The last status of each connector and task; ``changed`` is told of every change that is made here."""

    def __init__(
        self,
        changed: Callable[[str, int | None, Status | None], None] | None = None,
        topic_changed: Callable[[str, str, int | None], None] | None = None,
    ) -> None:
        self.tracks_topics = True
        self._connectors: dict[str, Status] = {}
        self._tasks: dict[tuple[str, int], Status] = {}
        self._counts: dict[tuple[str, int], TaskCounts] = {}
        self._topics: dict[str, dict[str, int]] = {}
        self._changed = changed or (lambda connector, task, status: None)
        self._topic_changed = topic_changed or (lambda connector, topic, task: None)

    def learn(self, name: str, task: int | None, status: Status | None) -> None:
        """Takes over what another worker says."""
        if task is None:
            if status is None:
                self._connectors.pop(name, None)
            else:
                self._connectors[name] = status
        elif status is None:
            self._tasks.pop((name, task), None)
        else:
            self._tasks[name, task] = status

    def drop(self, name: str) -> None:
        """Forgets a connector that another worker has deleted, without a word to the others."""
        self._connectors.pop(name, None)
        self._topics.pop(name, None)
        for task in self.tasks(name):
            del self._tasks[name, task]
            self._counts.pop((name, task), None)

    def learn_topic(self, name: str, topic: str, used: bool) -> None:
        topics = self._topics.setdefault(name, {})
        if used:
            topics.setdefault(topic, 0)
        else:
            topics.pop(topic, None)

    def set_connector(self, name: str, status: Status) -> None:
        self._connectors[name] = status
        self._changed(name, None, status)

    def set_task(self, name: str, task: int, status: Status) -> None:
        self._tasks[name, task] = status
        self._changed(name, task, status)

    def connector(self, name: str) -> Status | None:
        return self._connectors.get(name)

    def task(self, name: str, task: int) -> Status | None:
        return self._tasks.get((name, task))

    def tasks(self, name: str) -> dict[int, Status]:
        found = {task: status for (connector, task), status in self._tasks.items() if connector == name}
        return dict(sorted(found.items()))

    def counts(self, name: str, task: int) -> TaskCounts:
        """Those of a task that runs here, which writes into them."""
        return self._counts.setdefault((name, task), TaskCounts())

    def forget_tasks(self, name: str) -> None:
        for task in self.tasks(name):
            del self._tasks[name, task]
            self._counts.pop((name, task), None)
            self._changed(name, task, None)

    def forget(self, name: str) -> None:
        self.forget_tasks(name)
        self._connectors.pop(name, None)
        self.reset_topics(name)
        self._changed(name, None, None)

    def topics(self, name: str) -> list[str]:
        return list(self._topics.get(name, ()))

    def saw_topic(self, name: str, topic: str, task: int) -> None:
        topics = self._topics.setdefault(name, {})
        if self.tracks_topics and topic not in topics:
            topics[topic] = task
            self._topic_changed(name, topic, task)

    def reset_topics(self, name: str) -> None:
        for topic in self._topics.pop(name, {}):
            self._topic_changed(name, topic, None)
