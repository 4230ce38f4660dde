"""Statuses as records of Kafka's topic of statuses, and back.

Invariant: pure; what is no status is None, never an error.
"""

import json
from typing import NamedTuple

from moldau.connect.worker.statuses import State, Status

_CONNECTOR, _TASK, _TOPIC = "status-connector-", "status-task-", "status-topic-"


class StatusChange(NamedTuple):
    connector: str
    task: int | None
    status: Status | None


class TopicUse(NamedTuple):
    """That a connector uses a topic, or does no more."""

    connector: str
    topic: str
    used: bool


def status_record(
    connector: str, task: int | None, status: Status | None, generation: int
) -> tuple[bytes, bytes | None]:
    key = f"{_CONNECTOR}{connector}" if task is None else f"{_TASK}{connector}-{task}"
    if status is None:
        return key.encode(), None
    node = {
        "state": status.state.value,
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": generation,
        "version": status.version,
    }
    return key.encode(), json.dumps(node, separators=(",", ":"), ensure_ascii=False).encode()


def topic_record(connector: str, topic: str, task: int, now_ms: int | None) -> tuple[bytes, bytes | None]:
    """That a connector uses a topic; without a time, that it does no more."""
    key = f"{_TOPIC}{topic}:connector-{connector}".encode()
    if now_ms is None:
        return key, None
    node = {"topic": {"name": topic, "connector": connector, "task": task, "discoverTimestamp": now_ms}}
    return key, json.dumps(node, separators=(",", ":"), ensure_ascii=False).encode()


def read_status(key: bytes, value: bytes | None) -> StatusChange | TopicUse | None:
    name = key.decode("utf-8", "replace")
    if name.startswith(_CONNECTOR):
        return StatusChange(name.removeprefix(_CONNECTOR), None, _status(value))
    if name.startswith(_TASK):
        connector, _, task = name.removeprefix(_TASK).rpartition("-")
        return StatusChange(connector, int(task), _status(value)) if task.isdecimal() else None
    if name.startswith(_TOPIC):
        topic, found, connector = name.removeprefix(_TOPIC).partition(":connector-")
        return TopicUse(connector, topic, value is not None) if found else None
    return None


def _status(value: bytes | None) -> Status | None:
    if value is None:
        return None
    try:
        node = json.loads(value)
        return Status(State(node["state"]), str(node["worker_id"]), node.get("version"), node.get("trace"))
    except (ValueError, KeyError, TypeError):
        return None
