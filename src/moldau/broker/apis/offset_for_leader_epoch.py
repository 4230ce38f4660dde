"""OffsetForLeaderEpoch.

Behaviour: where the records of a leader epoch end, so that a reader can tell whether its log and
the leader's still agree.
"""

from moldau.broker.access.asks import every
from moldau.broker.bounds.turns import Steps, if_large
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from moldau.security.acls import Operation, ResourceType

ASKS = (
    every(
        Operation.DESCRIBE,
        ResourceType.TOPIC,
        "topics",
        name="topic",
        unless=(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    ),
)


def handle(
    request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse | Steps[OffsetForLeaderEpochResponse]:
    return if_large(context, _answer(request, context))


def _answer(
    request: OffsetForLeaderEpochRequest, context: RequestContext
) -> Steps[OffsetForLeaderEpochResponse]:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answers = []
        for asked in topic.partitions:
            yield
            answers.append(_look_up(topic.topic, asked, context))
        response.topics.append(OffsetForLeaderTopicResult(topic.topic, answers))
    return response


def _look_up(topic: str, asked: OffsetForLeaderPartition, context: RequestContext) -> EpochEndOffset:
    try:
        partition = context.services.replicas.find(topic, asked.partition)
        if asked.current_leader_epoch < -1:  # only -1 is no epoch
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        partition.leading_log(asked.current_leader_epoch)
        epoch, end_offset = partition.end_offset_for_epoch(asked.leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(error.code, asked.partition)
    return EpochEndOffset(0, asked.partition, epoch, end_offset)


def fail(
    request: OffsetForLeaderEpochRequest, error: KafkaError, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        refused = [EpochEndOffset(error.code, each.partition) for each in topic.partitions]
        response.topics.append(OffsetForLeaderTopicResult(topic.topic, refused))
    return response
