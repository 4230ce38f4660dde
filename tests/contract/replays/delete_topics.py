"""DeleteTopics, and a topic that comes back under its old name."""

from collections.abc import Iterator
from typing import Any

from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.contract.batches import batch
from tests.contract.replays.fetch import fetch, partition
from tests.contract.scene import UNKNOWN_ID, Scene

#: Deliberate differences: what we answer instead.
DIFFERENT: dict[str, Any] = {}


def replay(scene: Scene) -> Iterator[tuple[str, Any]]:
    def delete(*topics: DeleteTopicState) -> Any:
        return scene.ask(DeleteTopicsRequest(list(topics), timeout_ms=5000), 6)["Responses"]

    for name in ("ct1", "ct3", "ct8", "again"):
        scene.create(name)
    yield "unknown name", delete(DeleteTopicState("nope"))
    yield "unknown id", delete(DeleteTopicState(None, UNKNOWN_ID))
    yield "neither name nor id", delete(DeleteTopicState(None))
    yield "both name and id", delete(DeleteTopicState("ct8", scene.topic_id("ct8")))
    old = DeleteTopicsRequest(topic_names=["nope"], timeout_ms=5000)
    yield "v1 names, unknown", scene.ask(old, 1)["Responses"]
    yield "good", delete(DeleteTopicState("ct1"))
    yield "twice in a request", delete(DeleteTopicState("ct3"), DeleteTopicState("ct3"))
    yield "empty request", delete()
    yield "invalid name", delete(DeleteTopicState("a b"))
    scene.produce("again", batch(timestamp=scene.now_ms))
    before = scene.topic_id("again")
    delete(DeleteTopicState("again"))
    scene.create("again")
    lookup = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("again", [ListOffsetsPartition(0, -1, -1)])])
    yield (
        "delete and create again",
        {
            "id_changed": scene.topic_id("again") != before,
            "fetch by the old id": {"ErrorCode": partition(scene.ask(fetch(0, before), 13))["ErrorCode"]},
            "log end offset after recreate": scene.ask(lookup, 11)["Topics"][0]["Partitions"][0],
        },
    )
