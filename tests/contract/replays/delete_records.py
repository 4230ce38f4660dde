"""DeleteRecords."""

from collections.abc import Iterator
from typing import Any

from moldau.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.contract.batches import batch
from tests.contract.replays.fetch import fill
from tests.contract.scene import Scene

#: Deliberate differences: what we answer instead.
DIFFERENT: dict[str, Any] = {}


def replay(scene: Scene) -> Iterator[tuple[str, Any]]:
    def delete(topic: str, offset: int, index: int = 0) -> Any:
        asked = [DeleteRecordsTopic(topic, [DeleteRecordsPartition(index, offset)])]
        return scene.ask(DeleteRecordsRequest(asked, 5000), 2)

    fill(scene)
    scene.produce("f1", batch(timestamp=scene.now_ms))
    yield "beyond the high watermark", delete("f1", 999)
    yield "unknown topic", delete("nope", 0)
    yield "unknown partition", delete("f1", 0, 9)
    yield "offset -2", delete("f1", -2)
    yield "offset inside a batch", delete("f1", 7)
    yield "lower than the log start", delete("f1", 3)
    yield "offset -1 = to the high watermark", delete("f1", -1)
    scene.create("cmp2", configs={"cleanup.policy": "compact"})
    yield "compacted topic", delete("cmp2", 0)
    scene.create("__consumer_offsets")
    yield "internal topic", delete("__consumer_offsets", 0)
