"""One broker and one client beside it: where the golden cases are played again."""

from collections.abc import Mapping
from typing import Any

from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.testing import Broker
from tests.contract.golden import CLOSED, plain
from tests.contract.wire import CLOSED as WIRE_CLOSED
from tests.contract.wire import Wire

#: The settings of the real node: one partition unless a request says otherwise, no waiting for more members.
REAL_NODE = {"node.id": "1", "num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}
#: An id that no topic has.
UNKNOWN_ID = bytes(15) + b"\x01"


class Scene:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.wire = Wire(broker.port)

    def close(self) -> None:
        self.wire.close()

    @property
    def now_ms(self) -> int:
        return self.broker.clock.now_ms()

    def connect(self) -> Wire:
        return Wire(self.broker.port)

    def ask(self, message: Any, version: int, wire: Wire | None = None) -> Any:
        """The response in the form of the golden files. A connection that was closed is opened again."""
        answer = (wire or self.wire).ask(message, version)
        if answer is WIRE_CLOSED:
            if wire is None:
                self.wire.close()
                self.wire = self.connect()
            return CLOSED
        return plain(answer, version)

    def ask_and_wait(self, message: Any, version: int, seconds: float) -> Any:
        """The response to a request that the broker delays by exactly this time."""
        self.wire.send(message, version)
        while not self.broker.run(self._parked()):
            assert self.wire.is_silent(), "the answer came without any waiting"
        self.broker.clock.advance(seconds - 0.05)
        with self.connect() as other:
            other.ask(MetadataRequest([]), 1)
        assert self.wire.is_silent(), "the answer came too early"
        self.broker.clock.advance(0.05)
        return plain(self.wire.receive(type(message).__message__.api_key, version), version)

    async def _parked(self) -> int:
        return len(self.broker.node.services.purgatory)

    def create(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        self.broker.create_topic(name, partitions, configs)

    def topic_id(self, name: str) -> bytes:
        return self.broker.node.metadata.image.topics_by_name[name].topic_id

    def metadata(self, *names: str, version: int = 12, create: bool = False) -> Any:
        asked = [MetadataRequestTopic(name=name) for name in names]
        return self.ask(MetadataRequest(asked, create), version)

    def produce(
        self, topic: str, records: Any, *, version: int = 9, acks: int = -1, partition: int = 0
    ) -> Any:
        """The answer to a batch for one partition, the topic by name or, from version 13, by id."""
        return self.ask(produce_request(topic, records, acks=acks, partition=partition), version)


def produce_request(
    topic: str | bytes, records: Any, *, acks: int = -1, partition: int = 0
) -> ProduceRequest:
    data = [PartitionProduceData(partition, records)]
    named = TopicProduceData(topic, partition_data=data) if isinstance(topic, str) else None
    return ProduceRequest(None, acks, 5000, [named or TopicProduceData("", topic, data)])
