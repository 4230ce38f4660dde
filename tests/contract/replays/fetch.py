"""Fetch without sessions: offsets, limits, waiting, versions."""

from collections.abc import Iterator
from typing import Any

from moldau.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.contract.batches import batch
from tests.contract.scene import UNKNOWN_ID, Scene

#: Deliberate differences: what we answer instead.
DIFFERENT: dict[str, Any] = {}

MEGABYTE = 1 << 20


def replay(scene: Scene) -> Iterator[tuple[str, Any]]:
    fill(scene)
    yield "from 0", scene.ask(fetch(0), 12)
    yield "inside a batch", scene.ask(fetch(7), 12)
    yield "at the log end", scene.ask_and_wait(fetch(20, wait_ms=500), 12, 0.5)
    yield "beyond the log end", scene.ask(fetch(21, wait_ms=500), 12)
    yield "negative offset", scene.ask(fetch(-1), 12)
    yield "partition max bytes 1", scene.ask(fetch(0, partition_max_bytes=1), 12)
    yield "max bytes 1", scene.ask(fetch(0, max_bytes=1), 12)
    yield "max bytes 0", scene.ask(fetch(0, max_bytes=0), 12)
    yield "partition max bytes = 1.5 batches", scene.ask(fetch(0, partition_max_bytes=924), 12)
    waited = scene.ask_and_wait(fetch(0, wait_ms=700, min_bytes=10 * MEGABYTE), 12, 0.7)
    yield "min bytes never reached", {"records": partition(waited)["Records"]["bytes"]}
    yield "error answers at once even with a long wait", scene.ask(fetch(0, "nope", wait_ms=5000), 12)
    yield "unknown partition", scene.ask(fetch(0, index=9), 12)
    yield "unknown topic id", scene.ask(fetch(0, UNKNOWN_ID), 13)
    yield "unknown topic id v18", scene.ask(fetch(0, UNKNOWN_ID), 18)
    yield "zero topic id", scene.ask(fetch(0, bytes(16)), 13)
    right = partition(scene.ask(fetch(0, current_leader_epoch=0), 12))
    yield "current leader epoch right", {"ErrorCode": right["ErrorCode"]}
    yield "current leader epoch too new", scene.ask(fetch(0, current_leader_epoch=5), 12)
    yield "last fetched epoch larger", scene.ask(fetch(10, last_fetched_epoch=3), 12)
    yield "v4", scene.ask(fetch(15), 4)
    yield "v17", scene.ask(fetch(15, scene.topic_id("f1")), 17)
    yield "v18", scene.ask(fetch(15, scene.topic_id("f1")), 18)
    yield "replica id from a consumer connection", scene.ask(fetch(0, replica_id=1), 12)
    yield "replica id of a non-replica", scene.ask(fetch(0, replica_id=5), 12)
    yield "empty topics without session", scene.ask(FetchRequest(max_wait_ms=100, min_bytes=1), 12)
    yield from after_deletion(scene)
    yield from two_partitions(scene)


def fill(scene: Scene, topic: str = "f1") -> None:
    """Four batches of five records, 616 bytes each, at offsets 0, 5, 10 and 15."""
    scene.create(topic)
    for number in range(1, 5):
        values = [b"v" * size for size in (102, 102, 102, 102, 102)]
        made = batch(*values, key=None, timestamp=number * 1_000_000)
        assert len(made) == 616
        scene.produce(topic, made)


def fetch(
    offset: int,
    topic: str | bytes = "f1",
    *,
    index: int = 0,
    wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 * MEGABYTE,
    partition_max_bytes: int = MEGABYTE,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    replica_id: int = -1,
    session_id: int = 0,
    session_epoch: int = -1,
) -> FetchRequest:
    asked = FetchPartition(
        index,
        current_leader_epoch=current_leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_fetched_epoch,
        partition_max_bytes=partition_max_bytes,
    )
    name, topic_id = (topic, bytes(16)) if isinstance(topic, str) else ("", topic)
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchTopic(name, topic_id, [asked])],
    )


def partition(answer: Any) -> Any:
    return answer["Responses"][0]["Partitions"][0]


def after_deletion(scene: Scene) -> Iterator[tuple[str, Any]]:
    scene.produce("f1", batch(timestamp=scene.now_ms))
    asked = [DeleteRecordsTopic("f1", [DeleteRecordsPartition(0, 7)])]
    scene.ask(DeleteRecordsRequest(asked, 5000), 2)
    yield "below the log start", scene.ask(fetch(3), 12)
    # The batch of offset 20 came later in the captured run; three batches of 616 bytes are asked for.
    yield "at the log start inside a batch", scene.ask(fetch(7, partition_max_bytes=1848), 12)


def two_partitions(scene: Scene) -> Iterator[tuple[str, Any]]:
    scene.create("two", 2)
    for index in (0, 0, 1, 1):
        made = batch(b"v" * 500, key=b"k", timestamp=scene.now_ms)
        assert len(made) == 571, len(made)
        scene.produce("two", made, partition=index)

    def ask(max_bytes: int, partition_max_bytes: int) -> dict[str, Any]:
        asked = [
            FetchPartition(index, fetch_offset=0, partition_max_bytes=partition_max_bytes) for index in (0, 1)
        ]
        request = FetchRequest(min_bytes=1, max_bytes=max_bytes, topics=[FetchTopic("two", partitions=asked)])
        found = scene.ask(request, 12)["Responses"][0]["Partitions"]
        sizes = [each["Records"]["bytes"] for each in found]
        return {"bytes_per_partition": sizes, "errors": [each["ErrorCode"] for each in found]}

    yield "two partitions, MaxBytes=1", ask(1, MEGABYTE)
    yield "two partitions, MaxBytes=1000", ask(1000, MEGABYTE)
    yield "two partitions, PartitionMaxBytes=1 each", ask(MEGABYTE, 1)
