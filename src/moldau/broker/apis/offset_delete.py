"""OffsetDelete.

Behaviour: forgets committed offsets of topics that no member of the group is subscribed to.
"""

import asyncio
from typing import Any

from moldau.broker.access.asks import whole, within
from moldau.broker.context import RequestContext
from moldau.broker.coordination.group_requests import ask
from moldau.coordinators.groups.shard import GroupShard
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from moldau.security.acls import Operation, ResourceType

ASKS = (whole(Operation.DELETE, ResourceType.GROUP, "group_id"), within((Operation.READ, ResourceType.TOPIC)))


def handle(request: OffsetDeleteRequest, context: RequestContext) -> Any:
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    known = context.services.image.topics_by_name
    missing = [topic for topic in request.topics if topic.name not in known]
    refused = [
        topic for topic in request.topics if not context.may(Operation.READ, ResourceType.TOPIC, topic.name)
    ]
    missing = [topic for topic in missing if topic not in refused]
    request.topics = [topic for topic in request.topics if topic.name in known and topic not in refused]

    def answer(reply: "asyncio.Future[OffsetDeleteResponse]") -> OffsetDeleteResponse:
        response = reply.result()
        if not response.error_code:
            unknown, denied = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED
            response.topics[:0] = [_refused(topic, unknown) for topic in missing]
            response.topics[:0] = [_refused(topic, denied) for topic in refused]
        return response

    return ask(context, request.group_id, GroupShard.offset_delete, request, answer)


def _refused(topic: OffsetDeleteRequestTopic, code: ErrorCode) -> OffsetDeleteResponseTopic:
    refused = [OffsetDeleteResponsePartition(each.partition_index, code) for each in topic.partitions]
    return OffsetDeleteResponseTopic(topic.name, refused)


def fail(request: Any, error: KafkaError, context: RequestContext) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error.code)
