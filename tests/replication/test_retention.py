"""Retention as clients see it: what is too old or too much is gone, and nothing else is."""

from collections.abc import Iterator
from typing import Any

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.testing import Broker
from tests.contract.batches import batch
from tests.contract.scene import produce_request
from tests.contract.wire import Wire
from tests.shared.waiting import turns, wait_until

DAY = 86_400
EARLIEST = -2
#: Two batches of one small record fill a segment.
SMALL = {"internal.segment.bytes": 250}


class Client:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.wire = Wire(broker.port)

    def produce(self, topic: str = "t", count: int = 1) -> None:
        for _ in range(count):
            records = batch(bytes(50), timestamp=self.broker.clock.now_ms())
            answer = self.wire.ask(produce_request(topic, records), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0

    def fetch(self, offset: int, topic: str = "t") -> Any:
        asked = [FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)]
        answer = self.wire.ask(FetchRequest(min_bytes=1, topics=[FetchTopic(topic, partitions=asked)]), 12)
        return answer.responses[0].partitions[0]

    def earliest(self, topic: str = "t") -> int:
        asked = [ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, EARLIEST)])]
        answer = self.wire.ask(ListOffsetsRequest(-1, 0, asked), 7)
        return int(answer.topics[0].partitions[0].offset)

    def alter(self, topic: str, name: str, value: str) -> None:
        resource = AlterConfigsResource(2, topic, [AlterableConfig(name, 0, value)])
        answer = self.wire.ask(IncrementalAlterConfigsRequest([resource]), 1)
        assert answer.responses[0].error_code == 0

    def delete_records(self, offset: int, topic: str = "t") -> None:
        asked = [DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])]
        answer = self.wire.ask(DeleteRecordsRequest(asked, 1000), 2)
        assert answer.topics[0].partitions[0].error_code == 0

    def files(self, topic: str = "t") -> list[str]:
        async def names() -> list[str]:
            log = self.broker.node.replicas.find(topic, 0).log
            assert log is not None
            return self.broker.node._files.list_directory(log.directory)

        return self.broker.run(names())


@pytest.fixture
def client() -> Iterator[Client]:
    with Broker() as broker:
        made = Client(broker)
        yield made
        made.wire.close()


def retain(broker: Broker) -> None:
    """A round of retention now rather than at the next turn of the timer."""
    broker.run(broker.node.upkeep.retain())


def pass_time(broker: Broker, seconds: float) -> None:
    broker.clock.advance(seconds)
    retain(broker)


def test_by_time(client: Client) -> None:
    broker = client.broker
    broker.create_topic("t", configs={**SMALL, "retention.ms": DAY * 1000})
    broker.create_topic("other", configs=SMALL)
    client.produce(count=4)
    client.produce("other", 4)
    pass_time(broker, DAY / 2)
    client.produce(count=2)
    assert client.earliest() == 0
    pass_time(broker, DAY * 0.6)
    assert client.earliest() == 4
    assert client.fetch(3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    answer = client.fetch(4)
    assert (answer.error_code, answer.log_start_offset, answer.high_watermark) == (0, 4, 6)
    assert client.earliest("other") == 0, "a week is not over"
    pass_time(broker, 7 * DAY)
    assert (client.earliest(), client.earliest("other")) == (6, 4)
    client.produce()
    assert client.fetch(6).high_watermark == 7


def test_the_timer() -> None:
    """Every five minutes, the first time after half a minute; files go a minute later."""
    with Broker({"log.initial.task.delay.ms": 30_000}) as broker:
        client = Client(broker)
        goes_by_the_timer(broker, client)
        client.wire.close()


def goes_by_the_timer(broker: Broker, client: Client) -> None:
    broker.create_topic("t", configs={**SMALL, "retention.ms": 1})
    client.produce(count=4)
    for seconds in (31, 301):
        broker.clock.advance(seconds)
        broker.run(turns(10))
    wait_until(lambda: client.earliest() == 4)

    def all_gone() -> bool:
        """Other threads rename the files and remove them, when the clock says so."""
        broker.clock.advance(61)
        names = client.files()
        logs = [name for name in names if name.endswith(".log")]
        return logs == [f"{4:020d}.log"] and not [name for name in names if name.endswith(".deleted")]

    wait_until(all_gone, client.files)


def test_by_size_and_live(client: Client) -> None:
    broker = client.broker
    broker.create_topic("t", configs=SMALL)
    client.produce(count=10)
    retain(broker)
    assert client.earliest() == 0
    client.alter("t", "retention.bytes", "600")
    retain(broker)
    assert 0 < client.earliest() < 10
    client.alter("t", "retention.bytes", "-1")
    client.alter("t", "retention.ms", "-1")
    earliest = client.earliest()
    pass_time(broker, 1000 * DAY)
    assert client.earliest() == earliest


@pytest.mark.parametrize(
    ("settings", "kept_days"),
    [
        ({"log.retention.hours": 24}, 1),
        ({"log.retention.hours": 24, "log.retention.minutes": 2880}, 2),
        ({"log.retention.hours": 24, "log.retention.minutes": 2880, "log.retention.ms": 3 * DAY * 1000}, 3),
    ],
)
def test_which_setting_counts(settings: dict[str, int], kept_days: int) -> None:
    with Broker(settings) as broker:
        client = Client(broker)
        broker.create_topic("t", configs=SMALL)
        client.produce(count=3)
        pass_time(broker, (kept_days - 0.1) * DAY)
        assert client.earliest() == 0
        pass_time(broker, 0.2 * DAY)
        assert client.earliest() == 3
        client.wire.close()


def test_for_ever(client: Client) -> None:
    broker = client.broker
    broker.create_topic("t", configs={**SMALL, "retention.ms": -1})
    client.produce(count=3)
    pass_time(broker, 10_000 * DAY)
    assert client.earliest() == 0


@pytest.mark.parametrize(
    ("policy", "earliest"), [("delete", 6), ("compact,delete", 6), ("compact", 3), ("", 3)]
)
def test_cleanup_policy(client: Client, policy: str, earliest: int) -> None:
    broker = client.broker
    broker.create_topic("t", configs={**SMALL, "retention.ms": 1000})
    client.produce(count=6)
    client.delete_records(3)
    client.alter("t", "cleanup.policy", policy)
    pass_time(broker, DAY)
    assert client.earliest() == earliest
    logs = [name for name in client.files() if name.endswith(".log")]
    assert logs[0] == f"{earliest // 2 * 2:020d}.log"


def test_the_log_start_outlives_a_restart(client: Client) -> None:
    broker = client.broker
    broker.create_topic("t", configs={**SMALL, "retention.ms": 1000})
    client.produce(count=3)
    pass_time(broker, DAY)
    client.produce(count=3)
    client.delete_records(5)
    client.wire.close()
    broker.stop()
    broker.start()
    again = Client(broker)
    assert again.earliest() == 5
    again.wire.close()


def test_a_full_disk_has_room_again_after_retention(client: Client) -> None:
    broker = client.broker
    broker.create_topic("t", configs={**SMALL, "retention.ms": 1000})
    client.produce(count=6)
    assert broker._memory is not None
    broker._memory[0].faults.bytes_until_full = 0
    pass_time(broker, DAY)
    assert client.earliest() >= 4
    broker._memory[0].faults.bytes_until_full = None
    client.produce()
