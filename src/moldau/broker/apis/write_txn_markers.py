"""WriteTxnMarkers.

Behaviour: ends transactions in partitions of this broker. Brokers send it to each other, and tools
send it to end a hanging transaction.
"""

from typing import Any

from moldau.base.names import TopicPartition
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def handle(request: WriteTxnMarkersRequest, context: RequestContext) -> WriteTxnMarkersResponse:
    response = WriteTxnMarkersResponse()
    for marker in request.markers:
        result = WritableTxnMarkerResult(marker.producer_id)
        for topic in marker.topics:
            written = [
                WritableTxnMarkerPartitionResult(
                    index, _write(marker, TopicPartition(topic.name, index), context)
                )
                for index in topic.partition_indexes
            ]
            result.topics.append(WritableTxnMarkerTopicResult(topic.name, written))
        response.markers.append(result)
    return response


def _write(marker: WritableTxnMarker, partition: TopicPartition, context: RequestContext) -> ErrorCode:
    try:
        context.services.transactions.markers.write(
            partition,
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            marker.transaction_version,
        )
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


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
