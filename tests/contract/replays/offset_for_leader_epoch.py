"""OffsetForLeaderEpoch."""

from collections.abc import Iterator
from typing import Any

from moldau.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.contract.replays.list_offsets import fill
from tests.contract.scene import Scene

#: Deliberate differences: what we answer instead.
DIFFERENT: dict[str, Any] = {}


def replay(scene: Scene) -> Iterator[tuple[str, Any]]:
    def ask(epoch: int, *, topic: str = "lo", index: int = 0, current: int = -1) -> Any:
        asked = [OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(index, current, epoch)])]
        return scene.ask(OffsetForLeaderEpochRequest(-2, asked), 4)["Topics"]

    fill(scene)
    for epoch in (0, 1, -1):
        yield f"epoch {epoch} (leader epoch is 0)", ask(epoch)
    yield "current leader epoch too new", ask(0, current=3)
    yield "unknown topic", ask(0, topic="nope")
    yield "unknown partition", ask(0, index=4)
