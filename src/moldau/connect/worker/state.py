"""What connectors there are: configurations, target states and tasks, as records of Kafka's topic of configs.

Invariant: ``apply`` is the only way to change the state, live and when records are read again; tasks count
only once their commit record is there.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

_LEVEL = "logger-cluster-"


class Target(Enum):
    """What a connector should be doing."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class StateRecord(NamedTuple):
    key: str
    value: Mapping[str, Any] | None

    def encoded(self) -> tuple[bytes, bytes | None]:
        value = (
            None if self.value is None else json.dumps(self.value, separators=(",", ":"), ensure_ascii=False)
        )
        return self.key.encode(), None if value is None else value.encode()

    @classmethod
    def decoded(cls, key: bytes, value: bytes | None) -> "StateRecord | None":
        """None for what is no record of connectors."""
        try:
            found = None if value is None else json.loads(value)
            return cls(key.decode(), found) if found is None or isinstance(found, dict) else None
        except ValueError:
            return None


@dataclass(slots=True)
class ConfigState:
    connectors: dict[str, dict[str, str]] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    #: Settings of tasks that count.
    tasks: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    #: How many tasks of a source may have written in transactions: so many are fenced before new ones begin.
    fencing: dict[str, int] = field(default_factory=dict)
    _written: dict[str, dict[int, dict[str, str]]] = field(default_factory=dict)

    def target(self, name: str) -> Target:
        return self.targets.get(name, Target.STARTED)

    def apply(self, record: StateRecord) -> str | None:
        """Takes a record in; the name of the connector that it is about."""
        kind, _, name = record.key.partition("-")
        if kind == "connector":
            self._take_connector(name, record.value)
        elif record.key.startswith("target-state-"):
            name = record.key.removeprefix("target-state-")
            self._take_target(name, record.value)
        elif kind == "tasks" and name.startswith("fencing-"):
            name = name.removeprefix("fencing-")
            self._take_fencing(name, record.value)
        elif kind == "task":
            name, _, number = name.rpartition("-")
            if number.isdecimal():
                self._take_task(name, int(number), record.value)
        elif kind == "commit":
            self._take_commit(name, record.value)
        else:
            return None
        return name

    def written_tasks(self, name: str) -> list[int]:
        """Tasks of which there is a record, those that do not count any more too."""
        return sorted(self._written.get(name, ()))

    def _take_task(self, name: str, number: int, value: Mapping[str, Any] | None) -> None:
        written = self._written.setdefault(name, {})
        if value is None:
            written.pop(number, None)
        else:
            written[number] = _properties(value)

    def _take_connector(self, name: str, value: Mapping[str, Any] | None) -> None:
        if value is None:
            for known in (self.connectors, self.targets, self.tasks):
                known.pop(name, None)
        else:
            self.connectors[name] = _properties(value)

    def _take_target(self, name: str, value: Mapping[str, Any] | None) -> None:
        if value is None:
            self.targets.pop(name, None)
            return
        written = value.get("state.v2", value.get("state"))
        self.targets[name] = Target(written) if written in Target.__members__ else Target.STARTED

    def _take_fencing(self, name: str, value: Mapping[str, Any] | None) -> None:
        if value is None:
            self.fencing.pop(name, None)
        else:
            self.fencing[name] = int(value.get("task-count", 0))

    def _take_commit(self, name: str, value: Mapping[str, Any] | None) -> None:
        if value is None:
            self.tasks.pop(name, None)
            return
        count = int(value.get("tasks", 0))
        written = self._written.get(name, {})
        if all(number in written for number in range(count)):
            self.tasks[name] = [written[number] for number in range(count)]


def _properties(value: Mapping[str, Any]) -> dict[str, str]:
    found = value.get("properties", {})
    return {str(name): str(text) for name, text in found.items()} if isinstance(found, dict) else {}


def level_of(record: StateRecord) -> tuple[str, str] | None:
    """Which logger gets which level, of a record that says that to all workers."""
    name, level = record.key.removeprefix(_LEVEL), (record.value or {}).get("level")
    return (name, str(level)) if record.key.startswith(_LEVEL) and level is not None else None


# --- records ------------------------------------------------------------------------------------------


def created(name: str, config: Mapping[str, str], target: Target = Target.STARTED) -> list[StateRecord]:
    """A new connector; the target state comes first where it is not the usual one."""
    before = [] if target is Target.STARTED else [targeted(name, target)]
    return [*before, configured(name, config)]


def configured(name: str, config: Mapping[str, str]) -> StateRecord:
    return StateRecord(f"connector-{name}", {"properties": dict(config)})


def targeted(name: str, target: Target) -> StateRecord:
    plain = Target.PAUSED if target is Target.STOPPED else target
    return StateRecord(f"target-state-{name}", {"state": plain.value, "state.v2": target.value})


def planned(name: str, tasks: Iterable[Mapping[str, str]]) -> list[StateRecord]:
    """The settings of all tasks, and the record that makes them count."""
    records = [
        StateRecord(f"task-{name}-{number}", {"properties": dict(settings)})
        for number, settings in enumerate(tasks)
    ]
    return [*records, StateRecord(f"commit-{name}", {"tasks": len(records)})]


def fenced(name: str, count: int | None) -> StateRecord:
    """None when nobody can be left that is to be fenced."""
    return StateRecord(f"tasks-fencing-{name}", None if count is None else {"task-count": count})


def levelled(logger: str, level: str) -> StateRecord:
    return StateRecord(f"{_LEVEL}{logger}", {"level": level})


def deleted(name: str, tasks: Iterable[int]) -> list[StateRecord]:
    """Nothing of a deleted connector stays behind, where Apache's workers leave its tasks."""
    return [
        StateRecord(f"connector-{name}", None),
        StateRecord(f"target-state-{name}", None),
        *(StateRecord(f"task-{name}-{number}", None) for number in tasks),
        StateRecord(f"commit-{name}", None),
    ]
