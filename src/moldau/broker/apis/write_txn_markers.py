"""WriteTxnMarkers.

Behaviour: ends transactions in partitions of this broker. Brokers send it to each other, and tools
send it to end a hanging transaction. The answer waits until the in-sync replicas have the markers.
"""

from typing import Any

from moldau.base.names import TopicPartition
from moldau.broker.access.asks import cluster
from moldau.broker.bounds.turns import Steps, if_large
from moldau.broker.context import RequestContext
from moldau.broker.coordination.markers import Written
from moldau.broker.purgatory import Parked
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from moldau.security.acls import Operation

ASKS = (cluster(Operation.ALTER, Operation.CLUSTER_ACTION),)

#: How long the followers of a partition may take.
_REPLICATION_SECONDS = 30.0


def handle(
    request: WriteTxnMarkersRequest, context: RequestContext
) -> WriteTxnMarkersResponse | Parked | Steps[WriteTxnMarkersResponse | Parked]:
    return if_large(context, _write_all(request, context))


def _write_all(
    request: WriteTxnMarkersRequest, context: RequestContext
) -> Steps[WriteTxnMarkersResponse | Parked]:
    response = WriteTxnMarkersResponse()
    waiting: list[tuple[Written, WritableTxnMarkerPartitionResult]] = []
    for marker in request.markers:
        result = WritableTxnMarkerResult(marker.producer_id)
        for topic in marker.topics:
            answered = WritableTxnMarkerTopicResult(topic.name)
            for index in topic.partition_indexes:
                yield
                each = WritableTxnMarkerPartitionResult(index)
                try:
                    waiting.append((_write(marker, TopicPartition(topic.name, index), context), each))
                except KafkaError as error:
                    each.error_code = error.code
                answered.partitions.append(each)
            result.topics.append(answered)
        response.markers.append(result)
    return _when_replicated(response, waiting)


def _write(marker: WritableTxnMarker, partition: TopicPartition, context: RequestContext) -> Written:
    return context.services.transactions.markers.write(
        partition,
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
        marker.transaction_version,
    )


def _when_replicated(
    response: WriteTxnMarkersResponse, waiting: list[tuple[Written, WritableTxnMarkerPartitionResult]]
) -> WriteTxnMarkersResponse | Parked:
    def attempt(expired: bool) -> WriteTxnMarkersResponse | None:
        still = []
        for written, result in waiting:
            outcome = written.outcome()
            if outcome is None and expired:
                outcome = ErrorCode.REQUEST_TIMED_OUT
            if outcome is None:
                still.append((written, result))
            else:
                result.error_code = outcome
        waiting[:] = still
        return None if waiting else response

    return attempt(False) or Parked(
        dict.fromkeys(written.partition for written, _ in waiting), _REPLICATION_SECONDS, attempt
    )


def fail(request: Any, error: KafkaError, context: RequestContext) -> WriteTxnMarkersResponse:
    response = WriteTxnMarkersResponse()
    for marker in request.markers:
        result = WritableTxnMarkerResult(marker.producer_id)
        for topic in marker.topics:
            refused = [
                WritableTxnMarkerPartitionResult(index, error.code) for index in topic.partition_indexes
            ]
            result.topics.append(WritableTxnMarkerTopicResult(topic.name, refused))
        response.markers.append(result)
    return response
