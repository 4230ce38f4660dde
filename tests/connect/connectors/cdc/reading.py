"""A task that reads changes, and what a worker keeps of it."""

from collections.abc import Mapping
from typing import Any

from moldau.base.clock import SystemClock
from moldau.connect.config.validation import validate
from moldau.connect.connector import Place, SourceConnector, SourceTaskContext
from moldau.connect.data.schema import Struct
from moldau.connect.records import SourceRecord
from tests.shared.waiting import wait_until


class Reading:
    def __init__(self, connector: type[SourceConnector], name: str, given: Mapping[str, str]) -> None:
        self.connector = connector
        self.given = {"name": name, "connector.class": connector.class_name, **given}
        assert validate(connector, self.given).refusal() is None
        self.place: Place | None = None
        #: What the task has asked to be kept before it gave out any record.
        self.kept_first: Place | None = None
        self.records: list[SourceRecord] = []
        self.start()

    def start(self) -> None:
        self.task = self.connector(self.given).make_task()
        clock = SystemClock()
        self.task.start(
            self.given,
            SourceTaskContext("c", 0, lambda _: self.place, clock.now_ms, lambda _: self.place, self.keep),
        )

    def keep(self, partition: Place, place: Place) -> None:
        self.place = self.kept_first = place

    def poll(self) -> list[SourceRecord]:
        found = list(self.task.poll())
        self.records += found
        if found:
            self.place = found[-1].source_offset
        return found

    def until(self, count: int) -> list[tuple[str | None, Any, Any]]:
        wait_until(lambda: self.poll() is not None and len(self.records) >= count, lambda: self.records)
        return self.seen()

    def seen(self) -> list[tuple[str | None, Any, Any]]:
        return [changed(record) for record in self.records]

    def rows(self, column: str) -> set[Any]:
        """The values of a column that whoever follows all changes has at the end."""
        found: set[Any] = set()
        for kind, before, after in self.seen():
            if kind in ("d", None):
                found.discard(before[column])
            elif kind != "heartbeat":
                found.add(after[column])
        return found

    def restart(self) -> None:
        self.task.stop()
        self.start()


def plain(value: object) -> Any:
    if not isinstance(value, Struct):
        return value
    return {field.name: plain(item) for field, item in value.items()}


def changed(record: SourceRecord) -> tuple[str | None, Any, Any]:
    if record.value is None:
        return None, plain(record.key), None
    assert isinstance(record.value, Struct)
    if record.topic.startswith("__debezium-heartbeat"):
        return "heartbeat", None, plain(record.value)
    return str(record.value.get("op")), plain(record.value.get("before")), plain(record.value.get("after"))
