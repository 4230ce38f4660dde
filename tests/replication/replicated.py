"""Replicas of one partition on several nodes in memory, and a leader that is asked without a socket."""

import asyncio
from types import SimpleNamespace
from typing import Any

from moldau.base.clock import SteppedClock
from moldau.base.names import TopicPartition
from moldau.client.transport.connection import BrokerNotAvailable, ConnectionLost
from moldau.cluster.image import PartitionImage
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from moldau.protocol.records import Record, batches, decode_records, encode_batch
from moldau.replication.partition import Partition
from moldau.storage.directory.logs import Logs
from moldau.storage.files import MemoryFiles
from moldau.storage.log.log import LogConfig

NOW = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
ORDERS = TopicPartition("orders", 0)


def new_replica(node_id: int) -> Partition:
    clock = SteppedClock(frozen=True, start_ms=NOW)
    logs = Logs(MemoryFiles(), ["/data"], node_id, None, clock, config_of=lambda topic: LogConfig())
    logs.open()
    made = Partition(ORDERS, TOPIC_ID, node_id)
    made.log = logs.open_partition(ORDERS, TOPIC_ID, LogConfig())
    return made


def image(leader: int, leader_epoch: int, *, isr: tuple[int, ...] = (1, 2)) -> PartitionImage:
    return PartitionImage(0, (1, 2), isr, leader, leader_epoch, leader_epoch)


def write(partition: Partition, *values: bytes) -> None:
    for value in values:
        partition.append(memoryview(encode_batch([Record(0, NOW, None, value)])), 1, NOW, 12)


def values(partition: Partition) -> list[bytes | None]:
    log = partition.log
    assert log is not None
    found = log.read(log.log_start_offset, 1 << 20, log.log_end_offset, at_least_one=True)
    if found is None:
        return []
    data = found.read()
    return [
        record.value
        for position, header in batches(data)
        for record in decode_records(data, position, header, limit=1 << 20)
    ]


class FakeLeader:
    """A connection to a leader; a fetch that finds nothing waits until it is closed or woken."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.in_flight = 0
        self.closed = False
        self.requests: list[FetchRequest] = []
        self.error = 0
        self.away = False
        self._moved = asyncio.Event()

    async def connect(self, leader_id: int) -> Any:
        if self.away:
            raise BrokerNotAvailable("nobody is there")
        self.closed = False
        return self

    def close(self) -> None:
        self.closed = True
        self._moved.set()

    def wake(self) -> None:
        self._moved.set()

    async def send(self, request: Any, *, timeout_ms: int) -> Any:
        if not isinstance(request, FetchRequest):
            return self._offset(request)
        self.requests.append(request)
        self.in_flight += 1
        try:
            while True:
                self._moved.clear()
                response = self._answer(request)
                data = response.responses[0].partitions[0]
                if data.error_code or data.records or data.diverging_epoch.epoch >= 0 or self.error:
                    return response
                await self._moved.wait()
                if self.closed:
                    raise ConnectionLost("closed")
        finally:
            self.in_flight -= 1

    def _answer(self, request: FetchRequest) -> FetchResponse:
        (topic,) = request.topics or self.requests[0].topics
        (asked,) = topic.partitions
        data = PartitionData(asked.partition, 0, self.partition.high_watermark, -1, 0, records=b"")
        try:
            if self.error:
                raise KafkaError(ErrorCode(self.error))
            log = self.partition.log_for_follower(2, asked.current_leader_epoch)
            data.log_start_offset = log.log_start_offset
            epoch, end = self.partition.end_offset_for_epoch(asked.last_fetched_epoch)
            if asked.last_fetched_epoch >= 0 and (
                epoch < asked.last_fetched_epoch or end < asked.fetch_offset
            ):
                data.diverging_epoch = EpochEndOffset(epoch, end)
            else:
                found = log.read(asked.fetch_offset, 1 << 20, log.log_end_offset, at_least_one=True)
                data.records = memoryview(bytearray(found.read())) if found is not None else b""
                self.partition.follower_fetched(2, asked.fetch_offset, 0, NOW)
                data.high_watermark = self.partition.high_watermark
        except KafkaError as error:
            data.error_code = error.code
        return FetchResponse(0, 0, 0, [FetchableTopicResponse("", TOPIC_ID, [data])])

    def _offset(self, request: Any) -> Any:
        log = self.partition.leading_log()
        asked = request.topics[0].partitions[0]
        offset = log.log_end_offset if asked.timestamp == -1 else log.log_start_offset
        return SimpleNamespace(
            topics=[SimpleNamespace(partitions=[SimpleNamespace(error_code=0, offset=offset)])]
        )
