"""Plans of ``kafka-reassign-partitions``: the JSON files it reads and writes, and what a throttle covers.

Pure. Invariant: a plan that Kafka's tool refuses is refused with its message, before anything is changed.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from moldau.base.names import TopicPartition
from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.client.admin.replicas import Move, Replica

_FAILED = "org.apache.kafka.tools.AdminCommandFailedException"
_UNUSABLE = "org.apache.kafka.tools.AdminOperationException"
_ANYWHERE = "any"
Plan = dict[TopicPartition, tuple[int, ...]]
#: The directory that each replica is to be in, of those that name one.
Directories = dict[Replica, str]


def failed(message: str) -> ToolError:
    return ToolError(_FAILED, message)


def parse_plan(text: str) -> Plan:
    """The partitions of a --reassignment-json-file with their target replicas."""
    document = _document(text)
    plan: Plan = {}
    twice: list[str] = []
    for each in _list(document, "partitions"):
        try:
            partition = TopicPartition(str(each["topic"]), int(each["partition"]))
            replicas = tuple(int(broker) for broker in each["replicas"])
        except (KeyError, TypeError, ValueError) as error:
            raise failed(f"A partition of the plan is incomplete: {error}") from None
        directories = each.get("log_dirs")
        if directories is not None and len(directories) != len(replicas):
            raise failed(
                f"Size of replicas list {_java_list(replicas)} is different from size of log dirs list "
                f"{_java_list(directories)} for partition {partition}"
            )
        if partition in plan:
            twice.append(str(partition))
        plan[partition] = replicas
    if not plan:
        raise failed("Partition reassignment list cannot be empty")
    if any(not replicas for replicas in plan.values()):
        raise failed("Partition replica list cannot be empty")
    if twice:
        raise failed(f"Partition reassignment contains duplicate topic partitions: {','.join(twice)}")
    for partition, replicas in plan.items():
        repeated = [each for each in dict.fromkeys(replicas) if replicas.count(each) > 1]
        if repeated:
            entries = ",".join(map(str, repeated))
            raise failed(
                "Partition replica lists may not contain duplicate entries: "
                f"{partition} contains multiple entries for {entries}"
            )
    return plan


def parse_directories(text: str) -> Directories:
    """The ``log_dirs`` of a plan that ``parse_plan`` has taken."""
    return {
        (TopicPartition(str(each["topic"]), int(each["partition"])), int(broker)): str(directory)
        for each in _list(_document(text), "partitions")
        for broker, directory in zip(each["replicas"], each.get("log_dirs") or (), strict=False)
        if directory != _ANYWHERE
    }


def parse_topics(text: str) -> list[str]:
    """The names of a --topics-to-move-json-file."""
    try:
        names = [str(each["topic"]) for each in _list(_document(text), "topics")]
    except (KeyError, TypeError):
        raise failed("topics-to-move-json-file needs a list of objects with a topic") from None
    if not names:
        raise failed("List of topics to reassign cannot be empty")
    if len(set(names)) < len(names):
        twice = ",".join(dict.fromkeys(name for name in names if names.count(name) > 1))
        raise failed(f"List of topics to reassign contains duplicate entries: [{twice}]")
    return names


def parse_brokers(text: str) -> list[int]:
    try:
        brokers = [int(each) for each in text.split(",")]
    except ValueError:
        raise failed(f"The broker list is no list of ids: {text}") from None
    twice = [each for each in dict.fromkeys(brokers) if brokers.count(each) > 1]
    if twice:
        raise failed(f"Broker list contains duplicate entries: {_java_list(twice)}")
    return brokers


def plan_text(
    plan: Mapping[TopicPartition, Sequence[int]],
    directories: Mapping[tuple[TopicPartition, int], str] | None = None,
) -> str:
    """A plan as the tool prints it; "any" where the directory of a replica is not known."""
    known = directories or {}
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(replicas),
            "log_dirs": [known.get((partition, broker), _ANYWHERE) for broker in replicas],
        }
        for partition, replicas in sorted(plan.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))


def move_line(partition: TopicPartition, move: Move) -> str:
    """A line of --list."""
    adding, removing = (
        f" {name}: {','.join(map(str, ids))}." if ids else ""
        for name, ids in (("adding", move.adding), ("removing", move.removing))
    )
    return f"{partition}: replicas: {','.join(map(str, move.replicas))}.{adding}{removing}"


def throttled_replicas(current: Plan, target: Plan) -> dict[str, dict[str, str]]:
    """The configs of each topic that throttle a move: where it comes from, and where it goes to."""
    configs: dict[str, dict[str, list[str]]] = {}
    for partition, replicas in sorted(target.items()):
        before = current.get(partition, ())
        topic = configs.setdefault(partition.topic, {"leader": [], "follower": []})
        topic["leader"] += [f"{partition.partition}:{each}" for each in sorted(before)]
        topic["follower"] += [
            f"{partition.partition}:{each}" for each in sorted(replicas) if each not in before
        ]
    return {
        name: {
            f"{side}.replication.throttled.replicas": ",".join(entries)
            for side, entries in sides.items()
            if entries
        }
        for name, sides in configs.items()
    }


def _document(text: str) -> Any:
    try:
        document = json.loads(text)
    except ValueError:
        raise failed("The input string is not a valid JSON") from None
    version = document.get("version", 1) if isinstance(document, dict) else 1
    if version != 1:
        raise ToolError(_UNUSABLE, f"Not supported version field value {version}")
    return document


def _list(document: Any, name: str) -> list[Any]:
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, list) else []


def _java_list(values: Sequence[object]) -> str:
    return f"[{', '.join(map(str, values))}]"
