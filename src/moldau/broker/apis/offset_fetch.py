"""OffsetFetch.

Behaviour: where a group has got to; a null list of topics asks for all that it has committed. With
``require_stable`` an offset that waits for its transaction is UNSTABLE_OFFSET_COMMIT.
Version notes: many groups from v8, topics by id from v10.
"""

from typing import Any

from moldau.broker.context import RequestContext
from moldau.broker.coordination.group_requests import ask, ask_each
from moldau.coordinators.groups.shard import GroupShard
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)


def handle(request: OffsetFetchRequest, context: RequestContext) -> Any:
    if context.api_version < 8:
        return ask(context, request.group_id, GroupShard.offset_fetch, request)
    return _fetch_many(request, context)


async def _fetch_many(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    unknown = {group.group_id: _take_out_unknown(group, context) for group in request.groups}
    by_id = {group.group_id: group for group in request.groups}

    def piece(group_id: str) -> OffsetFetchRequest:
        return OffsetFetchRequest(groups=[by_id[group_id]], require_stable=request.require_stable)

    replies = await ask_each(context, list(by_id), GroupShard.offset_fetch, piece)
    response = OffsetFetchResponse()
    for group_id, reply in zip(by_id, replies, strict=True):
        if isinstance(reply, KafkaError):
            response.groups.append(OffsetFetchResponseGroup(group_id, error_code=reply.code))
        elif isinstance(reply, BaseException):
            raise reply
        else:
            response.groups += [_completed(group, unknown[group_id], context) for group in reply.groups]
    return response


def _take_out_unknown(
    group: OffsetFetchRequestGroup, context: RequestContext
) -> list[OffsetFetchResponseTopics]:
    """Gives topics that were asked for by id their names; those that nobody has are answered here."""
    if context.api_version < 10 or group.topics is None:
        return []
    known: list[OffsetFetchRequestTopics] = []
    unknown = []
    for topic in group.topics:
        found = context.services.image.topics_by_id.get(topic.topic_id)
        if found is not None:
            topic.name = found.name
            known.append(topic)
            continue
        code = ErrorCode.UNKNOWN_TOPIC_ID
        missing = [OffsetFetchResponsePartitions(i, -1, -1, "", code) for i in topic.partition_indexes]
        unknown.append(OffsetFetchResponseTopics("", topic.topic_id, missing))
    group.topics = known
    return unknown


def _completed(
    group: OffsetFetchResponseGroup, unknown: list[OffsetFetchResponseTopics], context: RequestContext
) -> OffsetFetchResponseGroup:
    if group.error_code:
        return group
    if context.api_version >= 10:
        names = context.services.image.topics_by_name
        # What was committed for a topic that is gone has no id to be named by.
        group.topics = [topic for topic in group.topics if topic.name in names]
        for topic in group.topics:
            topic.topic_id = names[topic.name].topic_id
    group.topics += unknown
    return group


def fail(request: OffsetFetchRequest, error: KafkaError, context: RequestContext) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        error_code=error.code,
        groups=[OffsetFetchResponseGroup(each.group_id, error_code=error.code) for each in request.groups],
    )
