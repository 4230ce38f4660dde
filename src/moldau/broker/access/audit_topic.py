"""Copies the lines of the audit log to a topic, each as the value of a record, with the broker as its key.

Invariant: the lines of one broker are in the topic in their order and once: one batch is under way at a time,
with a producer id and sequence numbers, and is sent again until it is there. No request waits for it. What
waits is bounded; lines beyond that are in the file only, and the log says so.
"""

import logging
from collections import deque

from moldau.base.names import TopicPartition
from moldau.broker import topic_creation
from moldau.broker.context import Services
from moldau.cluster.controller.topics import TopicToCreate
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records import Record, encode_batch

log = logging.getLogger("moldau.broker.audit")

_WAITING_MOST = 10_000
_BATCH_MOST = 500
_RETRY_SECONDS = 1.0
_TIMEOUT_MS = 10_000
#: The version from which on topics are named by id is not needed here.
_PRODUCE_VERSION = 12


class AuditTopic:
    def __init__(self, name: str, services: Services) -> None:
        self._name = name
        self._services = services
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._lost = 0
        self._busy = False
        self._producer_id = -1
        self._sequence = 0
        #: Lines of the batch that was sent and not acknowledged; it may be in the log all the same.
        self._attempted = 0

    def add(self, time_ms: int, line: str) -> None:
        if len(self._waiting) >= _WAITING_MOST:
            if not self._lost:
                log.error("the audit topic %s cannot be written: lines are in the file only", self._name)
            self._lost += 1
            return
        self._waiting.append((time_ms, line.encode()))
        self._go_on()

    def _go_on(self) -> None:
        if self._waiting and not self._busy and not self._services.stopping:
            self._busy = True
            self._services.background.start(self._send(), "audit topic")

    async def _send(self) -> None:
        """One batch; what fails is tried again in a while, as it was: its sequence stands for these lines."""
        count = self._attempted = self._attempted or min(len(self._waiting), _BATCH_MOST)
        try:
            if self._producer_id < 0:
                self._producer_id = await self._services.producer_ids.take()
            await self._make_topic()
            await self._produce([self._waiting[index] for index in range(count)])
        except (KafkaError, OSError, TimeoutError) as error:
            log.warning("the audit topic %s is tried again: %s", self._name, error)
            self._services.timers.after(_RETRY_SECONDS, self._again)
            return
        self._attempted = 0
        self._sequence = (self._sequence + count) & 0x7FFFFFFF
        for _ in range(count):
            self._waiting.popleft()
        if self._lost and not self._waiting:
            log.warning("the audit topic %s is written again; %d lines are not in it", self._name, self._lost)
            self._lost = 0
        self._again()

    def _again(self) -> None:
        self._busy = False
        self._go_on()

    async def _make_topic(self) -> None:
        if self._name in self._services.image.topics_by_name:
            return
        wanted = TopicToCreate(self._name, 1, -1, configs={"cleanup.policy": "delete"})
        (outcome,) = await topic_creation.create(self._services, [wanted])
        if isinstance(outcome, KafkaError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise outcome

    async def _produce(self, lines: list[tuple[int, bytes]]) -> None:
        services = self._services
        topic = services.image.topics_by_name.get(self._name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "it is not there yet")
        place = TopicPartition(self._name, 0)
        leader = topic.partitions[0].leader
        key = f"broker-{services.node_id}".encode()
        records = [Record(index, time_ms, key, line, ()) for index, (time_ms, line) in enumerate(lines)]
        batch = encode_batch(
            records, producer_id=self._producer_id, producer_epoch=0, base_sequence=self._sequence
        )
        if leader == services.node_id:
            partition = services.replicas.get(place)
            if partition is None:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "it is not here yet")
            partition.append(memoryview(bytearray(batch)), 1, services.clock.now_ms(), _PRODUCE_VERSION)
            return
        data = [TopicProduceData(self._name, topic.topic_id, [PartitionProduceData(0, bytes(batch))])]
        request = ProduceRequest(None, -1, _TIMEOUT_MS, data)
        answer = await services.controller.peers.send(leader, request, purpose="audit")
        code = answer.responses[0].partition_responses[0].error_code
        if code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            raise KafkaError(ErrorCode(code), f"broker {leader} refused it")
