"""Producer ids, sequences, duplicates and epochs."""

from collections.abc import Iterator
from typing import Any

from moldau.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.contract.batches import batch
from tests.contract.golden import BEHAVIOURS
from tests.contract.scene import Scene

FIRST = "very first InitProducerId after the start"

#: Deliberate differences: what we answer instead.
DIFFERENT: dict[str, Any] = {
    # Kafka has no block of ids yet and asks the client to try again; we wait for the block.
    FIRST: {"ThrottleTimeMs": 0, "ErrorCode": 0, "ProducerId": 0, "ProducerEpoch": 0},
}


def replay(scene: Scene) -> Iterator[tuple[str, Any]]:
    def new_id(timeout_ms: int = 60_000) -> Any:
        return scene.ask(InitProducerIdRequest(None, timeout_ms), 5)

    yield FIRST, new_id()
    made = new_id()
    yield "InitProducerId without transactional id", made
    yield "again: a new producer id each time", new_id()
    yield "timeout is not checked without transactional id", new_id(0)
    yield from sequences(scene, made["ProducerId"])
    yield from wrapping(scene)


class Producer:
    """Sends batches of one record each unless told otherwise, to one topic."""

    def __init__(self, scene: Scene, topic: str) -> None:
        self.scene = scene
        self.topic = topic

    def __call__(
        self, producer_id: int, sequence: int, count: int = 1, *, epoch: int = 0, partition: int = 0
    ) -> Any:
        made = batch(
            *[b"v"] * count,
            timestamp=self.scene.now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        answer = self.scene.produce(self.topic, made, partition=partition)
        return answer["Responses"][0]["PartitionResponses"][0]


def sequences(scene: Scene, own: int) -> Iterator[tuple[str, Any]]:
    scene.create("id1", 2)
    send = Producer(scene, "id1")
    yield "first batch, sequence 0", send(own, 0, 2)
    yield "next batch", send(own, 2)
    yield "duplicate of the last batch", send(own, 2)
    yield "duplicate of the batch before", send(own, 0, 2)
    yield "same first sequence, other record count", send(own, 2, 2)
    yield "gap", send(own, 10)
    yield "first batch of an unknown producer does not start at 0", send(own, 7, partition=1)
    for sequence in range(3, 9):
        send(own, sequence)
    yield "six batches on, oldest duplicate forgotten", send(own, 2)
    yield "oldest of the five remembered", send(own, 4)
    yield "newer epoch, sequence not 0", send(own, 5, epoch=1)
    yield "newer epoch, sequence 0", send(own, 0, epoch=1)
    yield "older epoch", send(own, 9, epoch=0)
    yield "negative epoch with a producer id", send(own, 0, epoch=-1)
    yield "negative sequence with a producer id", send(own, -1, epoch=1)
    yield "producer id never given out", send(999_999, 0)
    yield "never given out, seq 4", send(999_998, 4)
    described = scene.ask(DescribeProducersRequest([TopicRequest("id1", [0])]), 0)["Topics"]
    yield "DescribeProducers", in_kafkas_order(described)


def in_kafkas_order(described: Any) -> Any:
    """The real broker lists producers by their hashes: the order of its answer says nothing."""
    (expected,) = BEHAVIOURS["idempotent"]["DescribeProducers"]
    order = [each["ProducerId"] for each in expected["Partitions"][0]["ActiveProducers"]]
    found = described[0]["Partitions"][0]["ActiveProducers"]
    found.sort(key=lambda each: order.index(each["ProducerId"]))
    return described


def wrapping(scene: Scene) -> Iterator[tuple[str, Any]]:
    scene.create("wrap")
    send = Producer(scene, "wrap")
    yield "sequence wraps inside a batch", send(5, 2147483646, 3)
    yield "after the wrap", send(5, 1)
    yield "after the wrap, wrong", send(5, 5)
