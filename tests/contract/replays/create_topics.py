"""CreateTopics."""

from collections.abc import Iterator
from typing import Any

from moldau.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.contract.scene import Scene

#: Deliberate differences: what we answer instead.
DIFFERENT: dict[str, Any] = {}

NAMES = {
    "name: empty": "",
    'name: "."': ".",
    'name: ".."': "..",
    "name: 249 chars": "x" * 249,
    "name: 250 chars": "x" * 250,
    "name: space": "a b",
    "name: slash": "a/b",
    "name: non-ASCII letter": "é",
    "name: underscore and dot (allowed)": "a_b.c",
    "name: two leading underscores (allowed)": "__internal",
    "name: internal name": "__consumer_offsets",
}
#: Name, partitions and replication factor.
COUNTS = {
    "replication factor 2 on one broker": ("ct2", 1, 2),
    "replication factor 0": ("ct2", 1, 0),
    "replication factor -1 (default)": ("ct3", 1, -1),
    "replication factor -2": ("ct2", 1, -2),
    "partitions 0": ("ct2", 0, 1),
    "partitions -1 (default)": ("ct4", -1, 1),
    "partitions -2": ("ct2", -2, 1),
    "partitions 10001": ("ct2", 10_001, 1),
}
#: Name and the brokers of each partition that is assigned by hand.
ASSIGNMENTS: dict[str, tuple[str, list[tuple[int, list[int]]]]] = {
    "assignments with -1/-1": ("ct5", [(0, [1]), (1, [1])]),
    "assignments with a gap": ("ct2", [(0, [1]), (2, [1])]),
    "assignment to an unknown broker": ("ct2", [(0, [9])]),
    "assignment with the broker twice": ("ct2", [(0, [1, 1])]),
    "assignment without brokers": ("ct2", [(0, [])]),
    "assignment same partition twice": ("ct2", [(0, [1]), (0, [1])]),
}
CONFIGS = {
    "unknown config": ("no.such", "1"),
    "bad config value": ("retention.ms", "abc"),
    "null config value": ("retention.ms", None),
}


def assigned(name: str, brokers: list[tuple[int, list[int]]], count: int = -1) -> CreatableTopic:
    made = [CreatableReplicaAssignment(*each) for each in brokers]
    return CreatableTopic(name, count, count, assignments=made)


def replay(scene: Scene) -> Iterator[tuple[str, Any]]:
    def create(*topics: CreatableTopic, validate_only: bool = False) -> Any:
        return scene.ask(CreateTopicsRequest(list(topics), 5000, validate_only), 7)["Topics"]

    scene.create("__consumer_offsets")
    yield "good", create(CreatableTopic("ct1", 1, 1))
    yield "exists", create(CreatableTopic("ct1", 1, 1))
    for case, name in NAMES.items():
        yield case, create(CreatableTopic(name, 1, 1))
    scene.create("col_x")
    yield "collision a.b with a_b", create(CreatableTopic("col.x", 1, 1))
    for case, (name, partitions, factor) in COUNTS.items():
        yield case, create(CreatableTopic(name, partitions, factor))
    yield "both assignments and counts", create(assigned("ct2", [(0, [1])], count=1))
    for case, (name, brokers) in ASSIGNMENTS.items():
        yield case, create(assigned(name, brokers))
    for case, (name, value) in CONFIGS.items():
        yield case, create(CreatableTopic("ct2", 1, 1, configs=[CreatableTopicConfig(name, value)]))
    yield "validate only", create(CreatableTopic("ct6", 1, 1), validate_only=True)
    (missing,) = scene.metadata("ct6")["Topics"]
    yield "validate only did not create", {"ErrorCode": missing["ErrorCode"]}
    yield "same topic twice in a request", create(CreatableTopic("ct7", 1, 1), CreatableTopic("ct7", 1, 1))
    yield "good and bad in a request", create(CreatableTopic("ct8", 1, 1), CreatableTopic("a b", 1, 1))
