"""ListOffsets: timestamps, special places, and the versions that know them."""

from collections.abc import Iterator
from typing import Any

from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.contract.batches import batch
from tests.contract.scene import Scene

#: Deliberate differences: what we answer instead.
DIFFERENT: dict[str, Any] = {}

PLACES = {
    "latest": -1,
    "earliest": -2,
    "max timestamp": -3,
    "earliest local": -4,
    "latest tiered": -5,
    "earliest pending upload": -6,
    "undefined": -7,
}
GATES = [(1, -1), (1, -3), (6, -3), (7, -3), (7, -4), (8, -4), (8, -5), (9, -5), (10, -5)]
TIMESTAMPS = [0, 999_999, 1_000_000, 1_000_001, 2_000_000, 3_000_000, 3_000_001]


def fill(scene: Scene) -> None:
    """Three batches of two records, with the timestamps 1000000, 2000000 and 3000000."""
    scene.create("lo")
    for number in (1, 2, 3):
        scene.produce("lo", batch(b"a", b"b", timestamp=number * 1_000_000))


def replay(scene: Scene) -> Iterator[tuple[str, Any]]:
    def ask(
        timestamp: int,
        *,
        version: int = 11,
        topic: str = "lo",
        index: int = 0,
        epoch: int = -1,
        level: int = 0,
    ) -> Any:
        asked = [ListOffsetsTopic(topic, [ListOffsetsPartition(index, epoch, timestamp)])]
        answer = scene.ask(ListOffsetsRequest(-1, level, asked), version)
        return answer["Topics"][0]["Partitions"][0]

    fill(scene)
    for name, place in PLACES.items():
        yield name, ask(place)
    for version, place in GATES:
        yield f"version gate v{version} timestamp {place}", ask(place, version=version)
    for timestamp in TIMESTAMPS:
        yield f"timestamp {timestamp}", ask(timestamp)
    yield "unknown topic", ask(-1, topic="nope")
    yield "unknown partition", ask(-1, index=9)
    yield "leader epoch too new", ask(-1, epoch=9)
    yield "read committed latest", ask(-1, level=1)
    twice = [ListOffsetsTopic("lo", [ListOffsetsPartition(0, -1, -1), ListOffsetsPartition(0, -1, -2)])]
    yield "same partition twice", scene.ask(ListOffsetsRequest(-1, 0, twice), 11)
    scene.create("empty")
    for place in (-1, -2, -3, 0):
        yield f"empty topic, timestamp {place}", ask(place, topic="empty")
