"""OffsetForLeaderEpoch.

Behaviour: where the records of a leader epoch end, so that a reader can tell whether its log and
the leader's still agree.
"""

from moldau.broker.context import RequestContext
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(request: OffsetForLeaderEpochRequest, context: RequestContext) -> OffsetForLeaderEpochResponse:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answers = [_look_up(topic.topic, asked, context) for asked in topic.partitions]
        response.topics.append(OffsetForLeaderTopicResult(topic.topic, answers))
    return response


def _look_up(topic: str, asked: OffsetForLeaderPartition, context: RequestContext) -> EpochEndOffset:
    try:
        partition = context.services.replicas.find(topic, asked.partition)
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
