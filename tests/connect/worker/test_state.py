"""The state of connectors, made of records that a real worker wrote."""

import json
from pathlib import Path
from typing import Any

from moldau.connect.worker import state as records
from moldau.connect.worker.state import ConfigState, StateRecord, Target
from moldau.connect.worker.status_records import StatusChange, TopicUse, read_status, status_record
from moldau.connect.worker.statuses import State, Status

STEPS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "topics" / "records.json").read_text()
)["steps"]


def written(topic: str) -> list[tuple[bytes, bytes | None]]:
    return [
        (record["key"].encode(), None if record["value"] is None else record["value"].encode())
        for step in STEPS
        for record in step["records"]
        if record["topic"] == topic
    ]


def test_a_group_of_apache_workers_can_be_taken_over() -> None:
    state = ConfigState()
    seen: list[tuple[str, ...]] = []
    for key, value in written("connect-configs"):
        record = StateRecord.decoded(key, value)
        assert record is not None
        state.apply(record)
        seen.append(tuple(sorted(state.connectors)))
    assert ("snk", "src") in seen
    assert state.connectors == {}  # all of them were deleted at the end


def test_tasks_count_once_their_commit_is_there() -> None:
    state = ConfigState()
    for step in STEPS[:1]:
        for record in step["records"]:
            if record["topic"] != "connect-configs":
                continue
            if record["key"] == "commit-src":
                assert "src" not in state.tasks
            found = StateRecord.decoded(record["key"].encode(), record["value"].encode())
            assert found is not None
            state.apply(found)
    assert state.tasks["src"][0]["task.class"] == "org.apache.kafka.connect.file.FileStreamSourceTask"
    assert state.target("src") is Target.STARTED


def test_our_records_are_those_of_apache() -> None:
    known = dict(written("connect-configs"))
    config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "life.txt", "topic": "t-life"}
    first = next(value for key, value in written("connect-configs") if key == b"connector-src")
    assert records.configured("src", {**config, "name": "src"}).encoded() == (b"connector-src", first)
    targets = [value for key, value in written("connect-configs") if key == b"target-state-src"]
    for target in Target:
        assert records.targeted("src", target).encoded()[1] in targets or target is Target.STARTED
    assert records.planned("snk", [{}, {}])[-1].encoded() == (b"commit-snk", b'{"tasks":2}')
    assert known[b"connector-src"] is None


def test_statuses_of_apache_are_read_and_written_alike() -> None:
    for key, value in written("connect-status"):
        change = read_status(key, value)
        assert change is not None, key
        if isinstance(change, StatusChange) and value is not None:
            assert change.status is not None
            generation = json.loads(value)["generation"]
            again = status_record(change.connector, change.task, change.status, generation)
            assert again == (key, value)
        elif isinstance(change, TopicUse):
            assert change.used == (value is not None)


def test_what_is_no_record_of_ours() -> None:
    state = ConfigState()
    for key in ("session-key", "logger-cluster-x", "restart-connector-x"):
        assert state.apply(StateRecord(key, {})) is None
    assert StateRecord.decoded(b"connector-x", b"{bad") is None
    assert read_status(b"status-task-x", b"{}") is None
    assert read_status(b"status-connector-x", b"{bad") == StatusChange("x", None, None)
    assert Status(State.FAILED, "w", None, "t").node()["trace"] == "t"


def test_how_many_tasks_are_fenced_is_known_until_nobody_is_left() -> None:
    state = ConfigState()
    assert state.apply(StateRecord("tasks-fencing-a-b", {"task-count": 3})) == "a-b"
    assert state.fencing["a-b"] == 3
    assert records.fenced("a-b", 3).encoded() == (b"tasks-fencing-a-b", b'{"task-count":3}')
    state.apply(records.fenced("a-b", None))
    assert "a-b" not in state.fencing
