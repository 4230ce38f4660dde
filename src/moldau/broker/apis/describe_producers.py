"""DescribeProducers.

Behaviour: the producers that a partition remembers, with their last sequence and open transaction. One
that is named twice is described once; Kafka describes it twice.
"""

from moldau.base.names import TopicPartition, topic_name_error
from moldau.broker.access.asks import every
from moldau.broker.bounds.turns import Steps, if_large
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from moldau.security.acls import Operation, ResourceType

ASKS = (every(Operation.READ, ResourceType.TOPIC, "topics"),)


def handle(
    request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse | Steps[DescribeProducersResponse]:
    return if_large(context, _describe_all(request, context))


def _describe_all(
    request: DescribeProducersRequest, context: RequestContext
) -> Steps[DescribeProducersResponse]:
    response = DescribeProducersResponse()
    described: set[TopicPartition] = set()
    for topic in request.topics:
        answers = []
        for index in topic.partition_indexes:
            yield
            if (partition := TopicPartition(topic.name, index)) not in described:
                described.add(partition)
                answers.append(_describe(topic.name, index, context))
        response.topics.append(TopicResponse(topic.name, answers))
    return response


def _describe(topic: str, index: int, context: RequestContext) -> PartitionResponse:
    try:
        _check_topic(topic, context)
        log = context.services.replicas.find(topic, index).leading_log()
    except KafkaError as error:
        return PartitionResponse(index, error.code, error.message)
    producers = [
        ProducerState(
            producer.producer_id,
            producer.epoch,
            producer.last_sequence,
            producer.last_timestamp,
            producer.coordinator_epoch,
            producer.transaction_first_offset,
        )
        for producer in log.active_producers()
    ]
    return PartitionResponse(index, 0, None, producers)


def _check_topic(topic: str, context: RequestContext) -> None:
    if topic in context.services.image.topics_by_name:
        return
    if (reason := topic_name_error(topic)) is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")
    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


def fail(
    request: DescribeProducersRequest, error: KafkaError, context: RequestContext
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(t.name, [PartitionResponse(index, error.code) for index in t.partition_indexes])
            for t in request.topics
        ]
    )
