"""DescribeTopicPartitions.

Behaviour: topics in the order of their names, page by page: at most ``response_partition_limit``
partitions (and never more than ``max.request.partition.size.limit``), then a cursor for the rest.
"""

from typing import Any

from moldau.base.names import INTERNAL_TOPICS, topic_name_error
from moldau.broker.access.asks import within
from moldau.broker.bounds.turns import Steps, if_large
from moldau.broker.context import RequestContext
from moldau.cluster.image import ClusterImage, PartitionImage
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from moldau.security.acls import Operation, ResourceType

ASKS = (within((Operation.DESCRIBE, ResourceType.TOPIC)),)
_PAGE_LIMIT = 2000


def handle(
    request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse | Steps[DescribeTopicPartitionsResponse]:
    return if_large(context, _describe_all(request, context))


def _describe_all(
    request: DescribeTopicPartitionsRequest, context: RequestContext
) -> Steps[DescribeTopicPartitionsResponse]:
    image = context.services.image
    names = sorted({topic.name for topic in request.topics} or image.topics_by_name)
    hidden: list[str] = []
    if context.services.authorization is not None:
        quiet = not request.topics
        hidden = [
            name
            for name in names
            if not context.may(Operation.DESCRIBE, ResourceType.TOPIC, name, quiet=quiet)
        ]
        names = [name for name in names if name not in hidden]
    cursor = request.cursor
    if cursor is not None:
        if cursor.partition_index < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The cursor's partition index is negative.")
        if request.topics and cursor.topic_name not in names and cursor.topic_name not in hidden:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The cursor's topic is not one of those asked for.")
        names = [name for name in names if name >= cursor.topic_name]
    left = max(1, min(request.response_partition_limit, _PAGE_LIMIT))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        yield
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if left == 0:
            response.next_cursor = Cursor(name, first)
            break
        topic, taken, more = _describe(name, first, left, image)
        topic.topic_authorized_operations = context.operations(ResourceType.TOPIC, name)
        response.topics.append(topic)
        left -= taken
        if more:
            response.next_cursor = Cursor(name, first + taken)
            break
    if request.topics:
        # What may not be seen comes last, and looks the same whether it is there or not.
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        response.topics += [DescribeTopicPartitionsResponseTopic(refused, name) for name in hidden]
    return response


def _describe(
    name: str, first: int, left: int, image: ClusterImage
) -> tuple[DescribeTopicPartitionsResponseTopic, int, bool]:
    """One topic, how many of its partitions are in, and whether some are left for the next page."""
    topic = image.topics_by_name.get(name)
    if topic is None:
        bad = topic_name_error(name) is not None
        code = ErrorCode.INVALID_TOPIC_EXCEPTION if bad else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DescribeTopicPartitionsResponseTopic(code, name), 0, False
    page = topic.partitions[first : first + left]
    described = DescribeTopicPartitionsResponseTopic(
        ErrorCode.NONE,
        name,
        topic.topic_id,
        name in INTERNAL_TOPICS,
        [_partition(each, image) for each in page],
    )
    return described, len(page), first + len(page) < len(topic.partitions)


def _partition(described: PartitionImage, image: ClusterImage) -> DescribeTopicPartitionsResponsePartition:
    live = image.is_live(described.leader)
    return DescribeTopicPartitionsResponsePartition(
        ErrorCode.NONE if live else ErrorCode.LEADER_NOT_AVAILABLE,
        described.partition,
        described.leader if live else -1,
        described.leader_epoch,
        list(described.replicas),
        list(described.isr),
        list(described.elr),
        list(described.last_known_elr),
        [replica for replica in described.replicas if not image.is_live(replica)],
    )


def fail(request: Any, error: KafkaError, context: RequestContext) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(error.code, topic.name) for topic in request.topics]
    )
