"""DeleteRecords.

Behaviour: moves the start of a log forward, -1 meaning to the high watermark; records below it are
not served any more, whole segments below it go when retention next looks.
"""

from moldau.base.names import INTERNAL_TOPICS
from moldau.broker.access.asks import every
from moldau.broker.bounds.turns import Steps, if_large
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from moldau.security.acls import Operation, ResourceType

ASKS = (every(Operation.DELETE, ResourceType.TOPIC, "topics"),)


def handle(
    request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse | Steps[DeleteRecordsResponse]:
    return if_large(context, _delete(request, context))


def _delete(request: DeleteRecordsRequest, context: RequestContext) -> Steps[DeleteRecordsResponse]:
    response = DeleteRecordsResponse()
    for topic in request.topics:
        results = []
        for asked in topic.partitions:
            yield
            try:
                if topic.name in INTERNAL_TOPICS:
                    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
                partition = context.services.replicas.find(topic.name, asked.partition_index)
                low_watermark, code = partition.delete_records(asked.offset), ErrorCode.NONE
            except KafkaError as error:
                low_watermark, code = -1, error.code
            results.append(DeleteRecordsPartitionResult(asked.partition_index, low_watermark, code))
        response.topics.append(DeleteRecordsTopicResult(topic.name, results))
    return response


def fail(request: DeleteRecordsRequest, error: KafkaError, context: RequestContext) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse()
    for topic in request.topics:
        results = [
            DeleteRecordsPartitionResult(each.partition_index, -1, error.code) for each in topic.partitions
        ]
        response.topics.append(DeleteRecordsTopicResult(topic.name, results))
    return response
