"""CreatePartitions."""

from collections.abc import Iterator
from typing import Any

from moldau.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.contract.scene import Scene

TOO_MANY = "Excessively large number of partitions per request."
#: Deliberate differences: what we answer instead.
DIFFERENT: dict[str, Any] = {
    # Kafka makes half of them and fails; we refuse with the code and the words that CreateTopics has for it.
    "20000 partitions asked of one topic": [{"Name": "big", "ErrorCode": 44, "ErrorMessage": TOO_MANY}],
    "partitions the topic has after that error": {"partitions": 1},
}

#: Topic, partitions that it shall have, and brokers of the new ones.
CASES: dict[str, tuple[str, int, list[list[int]] | None]] = {
    "same count": ("b3", 3, None),
    "fewer": ("b3", 2, None),
    "zero": ("b3", 0, None),
    "negative": ("b3", -1, None),
    "unknown topic": ("nope", 4, None),
    "assignment count mismatch": ("b3", 5, [[1]]),
    "assignment unknown broker": ("b3", 4, [[9]]),
    "20000 partitions asked of one topic": ("big", 20_000, None),
}


def replay(scene: Scene) -> Iterator[tuple[str, Any]]:
    def widen(*topics: CreatePartitionsTopic, validate_only: bool = False) -> Any:
        return scene.ask(CreatePartitionsRequest(list(topics), 5000, validate_only), 3)["Results"]

    scene.create("b3", 3)
    scene.create("__consumer_offsets", 50)
    scene.create("big")
    yield "more", widen(CreatePartitionsTopic("b3", 4, None), validate_only=True)
    for case, (topic, count, brokers) in CASES.items():
        made = None if brokers is None else [CreatePartitionsAssignment(each) for each in brokers]
        yield case, widen(CreatePartitionsTopic(topic, count, made))
    internal = CreatePartitionsTopic("__consumer_offsets", 51, None)
    yield "internal topic", widen(internal, validate_only=True)
    twice = CreatePartitionsTopic("b3", 4, None)
    yield "duplicate topic in the request", widen(twice, twice)
    (big,) = scene.metadata("big")["Topics"]
    yield "partitions the topic has after that error", {"partitions": len(big["Partitions"])}
