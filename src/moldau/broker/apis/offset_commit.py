"""OffsetCommit.

Behaviour: a group's progress, durable when the answer goes out. Topics and partitions that do not
exist are refused one by one; the offset itself is taken as it is, as in Kafka.
Version notes: topics go by id from v10.
"""

import asyncio
from copy import copy
from typing import Any

from moldau.base.names import ZERO_UUID
from moldau.broker.access.asks import every, whole
from moldau.broker.bounds.pieces import cut_topics
from moldau.broker.bounds.turns import Turn
from moldau.broker.context import RequestContext
from moldau.broker.coordination.group_requests import ask, request_of
from moldau.cluster.image import TopicImage
from moldau.coordinators.groups.offsets import refuse_commit
from moldau.coordinators.groups.shard import GroupShard
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from moldau.security.acls import Operation, ResourceType

ASKS = (
    whole(Operation.READ, ResourceType.GROUP, "group_id"),
    every(Operation.READ, ResourceType.TOPIC, "topics", by_id_from=10, refused_first=True),
)


def handle(request: OffsetCommitRequest, context: RequestContext) -> Any:
    if context.large:
        return _commit_in_turns(request, context)
    refused = [_take_out_unknown(topic, context) for topic in request.topics]

    def answer(reply: "asyncio.Future[OffsetCommitResponse]") -> OffsetCommitResponse:
        try:
            response = reply.result()
        except KafkaError as error:
            response = refuse_commit(request, error.code)
        return _merge(response, refused)

    try:
        return ask(context, request.group_id, GroupShard.offset_commit, request, answer)
    except KafkaError as error:
        return _merge(refuse_commit(request, error.code), refused)


async def _commit_in_turns(request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    """Commits piece by piece: each partition has a result of its own."""
    turn = Turn()
    refused, topics = [], []
    for topic in request.topics:
        await turn.give_way()
        refused.append(_take_out_unknown(topic, context))
        topics.append(OffsetCommitResponseTopic(topic.name, topic.topic_id))
    for piece in cut_topics(request.topics):
        await turn.give_way()
        some = copy(request)
        some.topics = [topic for _, topic in piece]
        try:
            answer = await request_of(context, request.group_id, GroupShard.offset_commit, some)
        except KafkaError as error:
            answer = refuse_commit(some, error.code)
        for (place, _), answered in zip(piece, answer.topics, strict=True):
            topics[place].partitions += answered.partitions
    return _merge(OffsetCommitResponse(topics=topics), refused)


def _take_out_unknown(
    topic: OffsetCommitRequestTopic, context: RequestContext
) -> list[OffsetCommitResponsePartition]:
    """Leaves in the request what can be committed; the rest is answered here."""
    found, code = _find(topic, context)
    count = 0
    if found is not None:
        topic.name, topic.topic_id = found.name, found.topic_id
        count = len(found.partitions)
    unknown = [each for each in topic.partitions if not 0 <= each.partition_index < count]
    topic.partitions = [each for each in topic.partitions if 0 <= each.partition_index < count]
    return [OffsetCommitResponsePartition(each.partition_index, code) for each in unknown]


def _find(topic: OffsetCommitRequestTopic, context: RequestContext) -> tuple[TopicImage | None, ErrorCode]:
    image = context.services.image
    if context.api_version >= 10 or topic.topic_id != ZERO_UUID:
        found = image.topics_by_id.get(topic.topic_id)
        return found, ErrorCode.UNKNOWN_TOPIC_ID if found is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return image.topics_by_name.get(topic.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _merge(
    response: OffsetCommitResponse, refused: list[list[OffsetCommitResponsePartition]]
) -> OffsetCommitResponse:
    topics: list[OffsetCommitResponseTopic] = response.topics
    for topic, missing in zip(topics, refused, strict=True):
        topic.partitions += missing
    return response


def fail(request: OffsetCommitRequest, error: KafkaError, context: RequestContext) -> OffsetCommitResponse:
    return refuse_commit(request, error.code)
