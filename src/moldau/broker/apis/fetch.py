"""Fetch.

Behaviour: reads whole batches from the asked offset on, without looking inside. Waits up to
``max_wait_ms`` for ``min_bytes``; an error anywhere answers at once. The first batch of the first
partition that has data is always whole, whatever the limits say; later ones may be cut. Sessions
(v7) answer only what is new. ``read_committed`` stops at the last stable offset and names the aborted
transactions below it.
Version notes: topics go by id from v13; from v16 a client at the wrong broker is sent the right one.
Not done: followers (a replica id is answered NOT_LEADER_OR_FOLLOWER), a preferred read replica.
"""

from typing import Any

from moldau.broker.context import RequestContext
from moldau.broker.fetch_sessions import Plan, WantedPartition
from moldau.broker.purgatory import Parked
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from moldau.replication.partition import ISOLATION_LEVELS, READ_COMMITTED, Partition

_NOT_FOUND = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

Results = list[tuple[WantedPartition, PartitionData]]


def handle(request: FetchRequest, context: RequestContext) -> FetchResponse | Parked:
    services = context.services
    version = context.api_version
    if request.isolation_level not in ISOLATION_LEVELS:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    plan = services.fetch_sessions.plan(request, version)
    fetch = _Fetch(request, context, plan)
    results, size, urgent = fetch.read()
    enough = size >= request.min_bytes or urgent or not plan.wanted
    if enough or request.max_wait_ms <= 0 or services.stopping:
        return fetch.respond(results)
    return Parked(fetch.partitions(), request.max_wait_ms / 1000, fetch.attempt)


class _Fetch:
    """One fetch in the making; it may be read several times before it is answered."""

    __slots__ = ("context", "plan", "replica_id", "request")

    def __init__(self, request: FetchRequest, context: RequestContext, plan: Plan) -> None:
        self.request = request
        self.context = context
        self.plan = plan
        self.replica_id = max(request.replica_id, request.replica_state.replica_id)

    def find(self, wanted: WantedPartition) -> Partition:
        replicas = self.context.services.replicas
        if self.context.api_version >= 13:
            return replicas.find_by_id(wanted.topic_id, wanted.index)
        return replicas.find(wanted.topic, wanted.index)

    def partitions(self) -> list[Partition]:
        return [self.find(wanted) for wanted in self.plan.wanted]

    def attempt(self, expired: bool) -> FetchResponse | None:
        results, size, urgent = self.read()
        if expired or urgent or size >= self.request.min_bytes:
            return self.respond(results)
        return None

    def read(self) -> tuple[Results, int, bool]:
        """What can be read now, how many bytes it is, and whether it must be answered at once."""
        request = self.request
        left = min(request.max_bytes, self.context.services.settings.fetch_max_bytes)
        size = 0
        urgent = False
        first = True
        results: Results = []
        for wanted in self.plan.wanted:
            try:
                data = self.read_partition(wanted, left, first)
            except KafkaError as error:
                urgent = True
                data = _refused(wanted, error)
            else:
                taken = len(data.records or b"")
                if taken:
                    first = False
                    size += taken
                    left = max(left - taken, 0)
                elif data.diverging_epoch.epoch >= 0:
                    urgent = True
            results.append((wanted, data))
        return results, size, urgent

    def read_partition(self, wanted: WantedPartition, left: int, first: bool) -> PartitionData:
        partition = self.find(wanted)
        isolation_level = self.request.isolation_level
        bounds = partition.read_bounds(isolation_level, wanted.current_leader_epoch, self.replica_id)
        log_start_offset, high_watermark, last_stable_offset, end_offset = bounds
        committed = isolation_level == READ_COMMITTED
        data = PartitionData(
            wanted.index, 0, high_watermark, last_stable_offset, log_start_offset, records=b""
        )
        data.aborted_transactions = [] if committed else None
        if wanted.last_fetched_epoch >= 0 and _diverges(wanted, partition, data):
            return data
        limit = min(wanted.max_bytes, left)
        log = partition.leading_log()
        found = log.read(wanted.fetch_offset, limit, end_offset, at_least_one=first)
        if found is not None:
            data.records = found
            if committed:
                data.aborted_transactions = [
                    AbortedTransaction(aborted.producer_id, aborted.first_offset)
                    for aborted in log.aborted_transactions(wanted.fetch_offset, end_offset)
                ]
        return data

    def respond(self, results: Results) -> FetchResponse:
        response = FetchResponse(0, 0, self.plan.session_id)
        answered: FetchableTopicResponse | None = None
        for wanted, data in self.plan.select(results):
            if answered is None or answered.topic != wanted.topic or answered.topic_id != wanted.topic_id:
                answered = FetchableTopicResponse(wanted.topic, wanted.topic_id)
                response.responses.append(answered)
            answered.partitions.append(data)
            if data.error_code and self.context.api_version >= 12:
                self.name_leader(wanted, data, response)
        return response

    def name_leader(self, wanted: WantedPartition, data: PartitionData, response: FetchResponse) -> None:
        """Names the current leader to a reader whose view of the leadership is old (KIP-951)."""
        if data.error_code not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            return
        image = self.context.services.image
        topic = image.topics_by_id.get(wanted.topic_id) or image.topics_by_name.get(wanted.topic)
        if topic is None or not 0 <= wanted.index < len(topic.partitions) or self.context.api_version < 16:
            return
        described = topic.partitions[wanted.index]
        data.current_leader = LeaderIdAndEpoch(described.leader, described.leader_epoch)
        broker = image.brokers.get(described.leader)
        listener = broker.listener(self.context.listener) if broker is not None else None
        if broker is None or listener is None:
            return
        endpoint = NodeEndpoint(broker.broker_id, listener.host, listener.port, broker.rack)
        if endpoint not in response.node_endpoints:
            response.node_endpoints.append(endpoint)


def _refused(wanted: WantedPartition, error: KafkaError) -> PartitionData:
    """Kafka's two kinds of nothing: an empty list where it never found the partition, else null."""
    aborted: list[AbortedTransaction] | None = [] if error.code in _NOT_FOUND else None
    return PartitionData(wanted.index, error.code, -1, aborted_transactions=aborted, records=b"")


def _diverges(wanted: WantedPartition, partition: Partition, data: PartitionData) -> bool:
    """Whether the reader's last epoch ended elsewhere in this log (KIP-595)."""
    epoch, end_offset = partition.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch < 0 or end_offset < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        data.diverging_epoch = EpochEndOffset(epoch, end_offset)
        return True
    return False


def fail(request: Any, error: KafkaError, context: RequestContext) -> FetchResponse:
    return FetchResponse(error_code=error.code)
