"""OffsetFetch.

Behaviour: where a group has got to; a null list of topics asks for all that it has committed. With
``require_stable`` an offset that waits for its transaction is UNSTABLE_OFFSET_COMMIT.
Version notes: many groups from v8, topics by id from v10.
"""

from copy import copy
from typing import Any

from moldau.broker.access.asks import within
from moldau.broker.bounds.pieces import cut_topics
from moldau.broker.bounds.turns import Steps, Turn, at_once, in_turns
from moldau.broker.context import RequestContext
from moldau.broker.coordination.group_requests import ask, ask_each, request_of
from moldau.coordinators.groups.shard import GroupShard
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from moldau.security.acls import Operation, ResourceType

ASKS = (within((Operation.DESCRIBE, ResourceType.GROUP), (Operation.DESCRIBE, ResourceType.TOPIC)),)


def handle(request: OffsetFetchRequest, context: RequestContext) -> Any:
    if context.large and context.services.authorization is None:
        return _fetch_in_turns(request, context)
    if context.api_version >= 8:
        return _fetch_many(request, context)
    if context.services.authorization is None:
        return ask(context, request.group_id, GroupShard.offset_fetch, request)
    return _fetch_allowed(request, context)


async def _fetch_allowed(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    """One group, and of its topics those that the client may know of; the others are refused at the end."""
    context.require(Operation.DESCRIBE, ResourceType.GROUP, request.group_id)
    every = request.topics is None
    asked = request.topics or []
    allowed = [topic for topic in asked if _may_describe(topic.name, context)]
    if not every:
        request.topics = allowed
    response: OffsetFetchResponse = await request_of(
        context, request.group_id, GroupShard.offset_fetch, request
    )
    if every:
        response.topics = [each for each in response.topics if _may_describe(each.name, context, quiet=True)]
    for topic in asked:
        if topic not in allowed:
            response.topics.append(_refused_topic(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return response


def _may_describe(topic: str, context: RequestContext, *, quiet: bool = False) -> bool:
    return context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic, quiet=quiet)


def _refused_topic(topic: OffsetFetchRequestTopic, code: ErrorCode) -> OffsetFetchResponseTopic:
    refused = [OffsetFetchResponsePartition(index, -1, -1, "", code) for index in topic.partition_indexes]
    return OffsetFetchResponseTopic(topic.name, refused)


async def _fetch_many(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    refused = [
        group.group_id
        for group in request.groups
        if not context.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
    ]
    asked = [group for group in request.groups if group.group_id not in refused]
    unknown = {group.group_id: at_once(_take_out_unknown(group, context)) for group in asked}
    for group in asked:
        unknown[group.group_id] += _take_out_refused(group, context)
    by_id = {group.group_id: group for group in asked}

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
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    response.groups += [OffsetFetchResponseGroup(group_id, error_code=code) for group_id in refused]
    return response


def _take_out_refused(
    group: OffsetFetchRequestGroup, context: RequestContext
) -> list[OffsetFetchResponseTopics]:
    if context.services.authorization is None or group.topics is None:
        return []
    refused = [topic for topic in group.topics if not _may_describe(topic.name, context)]
    group.topics = [topic for topic in group.topics if topic not in refused]
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return [
        OffsetFetchResponseTopics(
            topic.name,
            topic.topic_id,
            [OffsetFetchResponsePartitions(index, -1, -1, "", code) for index in topic.partition_indexes],
        )
        for topic in refused
    ]


async def _fetch_in_turns(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    """Asks piece by piece; the groups and topics of the answer are in the order of the request."""
    turn = Turn()
    if context.api_version < 8:
        topics: list[OffsetFetchResponseTopic] = []
        for piece in cut_topics(request.topics or [], "partition_indexes"):
            await turn.give_way()
            some = copy(request)
            some.topics = [topic for _, topic in piece]
            answer = await request_of(context, request.group_id, GroupShard.offset_fetch, some)
            if answer.error_code:
                return answer  # type: ignore[no-any-return]
            _add(topics, piece, answer.topics)
        return OffsetFetchResponse(topics=topics)
    response = OffsetFetchResponse()
    for group in {group.group_id: group for group in request.groups}.values():
        unknown = await in_turns(_take_out_unknown(group, context), turn)
        fetched = await _fetch_group(group, request.require_stable, context, turn)
        response.groups.append(_completed(fetched, unknown, context))
    return response


async def _fetch_group(
    group: OffsetFetchRequestGroup, require_stable: bool, context: RequestContext, turn: Turn
) -> OffsetFetchResponseGroup:
    fetched = OffsetFetchResponseGroup(group.group_id)
    pieces = [[]] if group.topics is None else cut_topics(group.topics, "partition_indexes")
    for piece in pieces:
        await turn.give_way()
        some = copy(group)
        some.topics = None if group.topics is None else [topic for _, topic in piece]
        asked = OffsetFetchRequest(groups=[some], require_stable=require_stable)
        try:
            answer = await request_of(context, group.group_id, GroupShard.offset_fetch, asked)
        except KafkaError as error:
            return OffsetFetchResponseGroup(group.group_id, error_code=error.code)
        (answered,) = answer.groups
        if answered.error_code or group.topics is None:
            return answered  # type: ignore[no-any-return]
        _add(fetched.topics, piece, answered.topics)
    return fetched


def _add(topics: list[Any], piece: list[tuple[int, Any]], answered: list[Any]) -> None:
    """Adds the answer to one piece: a topic that begins there, or more of the one before."""
    for (place, _), topic in zip(piece, answered, strict=True):
        if place == len(topics):
            topics.append(topic)
        else:
            topics[place].partitions += topic.partitions


def _take_out_unknown(
    group: OffsetFetchRequestGroup, context: RequestContext
) -> Steps[list[OffsetFetchResponseTopics]]:
    """Gives topics that were asked for by id their names; those that nobody has are answered here."""
    if context.api_version < 10 or group.topics is None:
        return []
    known: list[OffsetFetchRequestTopics] = []
    unknown = []
    for topic in group.topics:
        yield
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
    if context.services.authorization is not None:
        group.topics = [topic for topic in group.topics if _may_describe(topic.name, context, quiet=True)]
    if context.api_version >= 10:
        names = context.services.image.topics_by_name
        # What was committed for a topic that is gone has no id to be named by.
        group.topics = [topic for topic in group.topics if topic.name in names]
        for topic in group.topics:
            topic.topic_id = names[topic.name].topic_id
    group.topics += unknown
    return group


def fail(request: OffsetFetchRequest, error: KafkaError, context: RequestContext) -> OffsetFetchResponse:
    # Version 1 has no place for an error but with the partitions.
    topics = [_refused_topic(topic, error.code) for topic in request.topics or ()]
    return OffsetFetchResponse(
        topics=topics if context.api_version < 2 else [],
        error_code=error.code,
        groups=[OffsetFetchResponseGroup(each.group_id, error_code=error.code) for each in request.groups],
    )
