"""What a leader and a follower answer to fetches of replicas and of consumers, as Apache Kafka 4.3 does."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.client.transport.connection import Connection
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from moldau.replication.read_replica import RACK_AWARE_SELECTOR
from moldau.testing import Cluster
from tests.shared.waiting import wait_until

UNKNOWN_EPOCH = -1


class Asking:
    """A cluster of three with the topic ``orders``: 3 replicas, leader 1, ten records in two batches.

    Tests may fetch in the name of broker 3, whose progress the leader then believes for a while.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        topic = NewTopic("orders", 1, replica_assignment=[[1, 2, 3]])
        for future in admin.create_topics([topic]).values():
            future.result(30)
        for _ in range(2):
            producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 200})
            for number in range(5):
                producer.produce("orders", str(number))
            producer.flush(30)
        self.topic_id = cluster.image.topics_by_name["orders"].topic_id
        wait_until(lambda: all(self.partition(each).high_watermark == 10 for each in (1, 2, 3)))

    def partition(self, broker_id: int) -> Any:
        return self.cluster[broker_id].node.replicas.find("orders", 0)

    def fetch(
        self,
        broker_id: int = 1,
        *,
        offset: int = 0,
        replica: int = -1,
        replica_epoch: int = UNKNOWN_EPOCH,
        epoch: int = -1,
        last_epoch: int = -1,
        rack: str = "",
        version: int = 17,
        min_bytes: int = 0,
        high_watermark: int = 9223372036854775807,
        max_wait_ms: int = 0,
    ) -> PartitionData:
        asked = FetchPartition(
            partition=0,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            log_start_offset=0,
            partition_max_bytes=1 << 20,
            high_watermark=high_watermark,
        )
        request = FetchRequest(
            replica_id=replica,
            replica_state=ReplicaState(replica, replica_epoch),
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[FetchTopic(topic="orders", topic_id=self.topic_id, partitions=[asked])],
            rack_id=rack,
        )

        async def ask(connection: Connection) -> Any:
            return await connection.send(request, max_version=version)

        answer: Any = self.on_connection(broker_id, ask)
        assert answer.error_code == 0
        found: PartitionData = answer.responses[0].partitions[0]
        return found

    def on_connection(self, broker_id: int, ask: Callable[[Connection], Awaitable[Any]]) -> Any:
        host, _, port = self.cluster[broker_id].bootstrap_servers.partition(":")

        async def run() -> Any:
            connection = await Connection.open(host, int(port))
            try:
                return await ask(connection)
            finally:
                await connection.wait_closed()

        return asyncio.run(run())


@pytest.fixture(scope="module")
def asking() -> Iterator[Asking]:
    settings = {"replica.selector.class": RACK_AWARE_SELECTOR}
    with Cluster(3, settings, racks={1: "r1", 2: "r2", 3: "r3"}) as cluster:
        yield Asking(cluster)


def test_a_replica_reads_to_the_end_of_the_log(asking: Asking) -> None:
    data = asking.fetch(replica=3, epoch=0)
    assert (data.error_code, data.high_watermark, data.log_start_offset) == (0, 10, 0)
    assert data.records
    assert asking.fetch(replica=3, version=12).error_code == 0, "in the old place"


@pytest.mark.parametrize("version", [12, 17])
@pytest.mark.parametrize(
    ("epoch", "expected"), [(0, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
)
def test_who_is_no_replica(asking: Asking, version: int, epoch: int, expected: ErrorCode) -> None:
    assert asking.fetch(replica=55, epoch=epoch, version=version).error_code == expected


def test_a_process_of_the_past(asking: Asking) -> None:
    known = asking.cluster.image.brokers[3].broker_epoch
    refused = asking.fetch(replica=3, replica_epoch=known - 1)
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (1, 0)
    assert asking.fetch(replica=3, replica_epoch=known).error_code == 0
    assert asking.fetch(replica=3, replica_epoch=known + 5).error_code == 0


def test_a_follower_is_not_copied(asking: Asking) -> None:
    refused = asking.fetch(2, replica=3, epoch=0)
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused.current_leader.leader_id == 1


@pytest.mark.parametrize(
    ("offset", "last_epoch", "error", "diverging"),
    [
        (11, -1, ErrorCode.OFFSET_OUT_OF_RANGE, (-1, -1)),
        (11, 0, ErrorCode.NONE, (0, 10)),
        (3, 5, ErrorCode.OFFSET_OUT_OF_RANGE, (-1, -1)),
        (10, 0, ErrorCode.NONE, (-1, -1)),
    ],
)
def test_offsets_that_the_leader_does_not_have(
    asking: Asking, offset: int, last_epoch: int, error: ErrorCode, diverging: tuple[int, int]
) -> None:
    data = asking.fetch(replica=3, epoch=0, offset=offset, last_epoch=last_epoch)
    assert data.error_code == error
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == diverging


def test_a_replica_with_an_old_high_watermark_does_not_wait(asking: Asking) -> None:
    """From version 18 on it says what it knows."""
    data = asking.fetch(
        replica=3, epoch=0, offset=10, version=18, min_bytes=1, max_wait_ms=60_000, high_watermark=7
    )
    assert (data.error_code, data.high_watermark) == (0, 10)


@pytest.mark.parametrize(
    ("at", "rack", "offset", "preferred", "has_records"),
    [
        (1, "r2", 0, 2, False),
        (1, "r1", 0, -1, True),
        (1, "zz", 0, -1, True),
        (1, "", 0, -1, True),
        (2, "r2", 0, -1, True),
        (2, "r3", 0, -1, True),
        (1, "r2", 10, 2, False),
    ],
)
def test_the_nearest_replica(
    asking: Asking, at: int, rack: str, offset: int, preferred: int, has_records: bool
) -> None:
    data = asking.fetch(at, rack=rack, offset=offset)
    assert (data.error_code, data.high_watermark, data.preferred_read_replica) == (0, 10, preferred)
    assert bool(data.records) == has_records


def test_consumers_of_a_follower(asking: Asking) -> None:
    assert asking.fetch(2, offset=11).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert asking.fetch(2, epoch=7).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    data = asking.fetch(2, offset=10)
    assert (data.error_code, data.high_watermark, bool(data.records)) == (0, 10, False)
