"""OffsetDelete.

Behaviour: forgets committed offsets of topics that no member of the group is subscribed to.
"""

import asyncio
from typing import Any

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


def handle(request: OffsetDeleteRequest, context: RequestContext) -> Any:
    known = context.services.image.topics_by_name
    missing = [topic for topic in request.topics if topic.name not in known]
    request.topics = [topic for topic in request.topics if topic.name in known]

    def answer(reply: "asyncio.Future[OffsetDeleteResponse]") -> OffsetDeleteResponse:
        response = reply.result()
        if not response.error_code:
            response.topics[:0] = [_unknown(topic) for topic in missing]
        return response

    return ask(context, request.group_id, GroupShard.offset_delete, request, answer)


def _unknown(topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refused = [OffsetDeleteResponsePartition(each.partition_index, code) for each in topic.partitions]
    return OffsetDeleteResponseTopic(topic.name, refused)


def fail(request: Any, error: KafkaError, context: RequestContext) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error.code)
