"""Metadata, DescribeCluster and DescribeTopicPartitions."""

from collections.abc import Iterator
from typing import Any

from moldau.protocol.messages.describe_cluster import DescribeClusterRequest
from moldau.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.contract.scene import UNKNOWN_ID, Scene

#: Deliberate differences: what we answer instead.
DIFFERENT: dict[str, Any] = {
    # We answer when the topic is there; Kafka answers that it is unknown and lets the client ask again.
    "unknown topic, auto creation allowed, first ask": "as half a second later",
    "unknown topic in v3 (flag does not exist yet: always creates)": "created at once",
    # Kafka looks at the ids alone as soon as there is one, and the name is left without an answer.
    "mix of ids and names": ["b3", "b1"],
}


def replay(scene: Scene) -> Iterator[tuple[str, Any]]:
    scene.create("b3", 3)
    scene.create("b1", 1)
    for version in (0, 1, 8, 9, 12, 13):
        yield f"existing topic, v{version}", scene.metadata("b1", version=version)
    yield "v0 empty array means all topics", names(scene.ask(MetadataRequest([]), 0))
    yield "v1 empty array means none", names(scene.ask(MetadataRequest([]), 1))
    yield "v1 null means all", names(scene.ask(MetadataRequest(None), 1))
    yield "unknown topic, auto creation not allowed", scene.metadata("nope")["Topics"]
    yield from creation(scene)
    yield "same topic twice", names(scene.metadata("b1", "b1"))["topics"]
    yield from by_id(scene)
    yield from operations(scene)
    yield from other_apis(scene)


def names(answer: Any) -> dict[str, list[str]]:
    return {"topics": [topic["Name"] for topic in answer["Topics"]]}


def creation(scene: Scene) -> Iterator[tuple[str, Any]]:
    first = scene.metadata("auto1", create=True)["Topics"]
    second = scene.metadata("auto1", create=True)["Topics"]
    yield (
        "unknown topic, auto creation allowed, first ask",
        "as half a second later" if first == second else first,
    )
    yield "same, half a second later", second
    (topic,) = scene.metadata("auto2", version=3)["Topics"]
    created = topic["ErrorCode"] == 0 and len(topic["Partitions"]) == 1
    yield (
        "unknown topic in v3 (flag does not exist yet: always creates)",
        "created at once" if created else topic,
    )
    yield "invalid topic name", scene.metadata("a b", create=True)["Topics"]
    yield "empty topic name", scene.metadata("", create=True)["Topics"]
    scene.create("a_b")
    yield (
        "name colliding with an existing one on auto creation",
        scene.metadata("a.b", create=True)["Topics"],
    )


def by_id(scene: Scene) -> Iterator[tuple[str, Any]]:
    def ask(version: int, *topics: MetadataRequestTopic) -> Any:
        return scene.ask(MetadataRequest(list(topics)), version)["Topics"]

    b3 = MetadataRequestTopic(scene.topic_id("b3"), None)
    yield "unknown topic id", ask(12, MetadataRequestTopic(UNKNOWN_ID, None))
    found = ask(12, b3)
    yield "known topic id", [[t["ErrorCode"], t["Name"], len(t["Partitions"])] for t in found]
    yield "topic id in v10", ask(10, b3)
    mixed = ask(12, b3, MetadataRequestTopic(name="b1"))
    yield "mix of ids and names", [topic["Name"] for topic in mixed]


def operations(scene: Scene) -> Iterator[tuple[str, Any]]:
    for case, asked in (("cluster/topic authorized operations asked", True), ("not asked", False)):
        answer = scene.ask(MetadataRequest([MetadataRequestTopic(name="b1")], False, asked, asked), 10)
        yield (
            case,
            {
                "ClusterAuthorizedOperations": answer["ClusterAuthorizedOperations"],
                "TopicAuthorizedOperations": answer["Topics"][0]["TopicAuthorizedOperations"],
            },
        )


def other_apis(scene: Scene) -> Iterator[tuple[str, Any]]:
    yield "DescribeCluster brokers", scene.ask(DescribeClusterRequest(True, 1), 2)
    yield "DescribeCluster controllers asked of a broker", scene.ask(DescribeClusterRequest(False, 2), 2)

    def describe(*topics: str, limit: int = 2000, cursor: Cursor | None = None) -> Any:
        asked = [TopicRequest(name) for name in topics]
        return scene.ask(DescribeTopicPartitionsRequest(asked, limit, cursor), 0)

    yield "DescribeTopicPartitions", describe("b3", limit=2)
    yield "DescribeTopicPartitions cursor", describe("b3", limit=2, cursor=Cursor("b3", 2))
    yield "DescribeTopicPartitions unknown topic", describe("nope")
    yield "DescribeTopicPartitions empty list means all", names(describe())
