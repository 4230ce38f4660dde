"""DeleteGroups.

Behaviour: forgets groups without members, their offsets included; each has its own result.
"""

from typing import Any

from moldau.broker.access.asks import every
from moldau.broker.context import RequestContext
from moldau.broker.coordination.group_requests import ask_each
from moldau.coordinators.groups.shard import GroupShard
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from moldau.security.acls import Operation, ResourceType

ASKS = (
    every(
        Operation.DELETE, ResourceType.GROUP, "groups_names", name=None, answers="results", refused_first=True
    ),
)


async def handle(request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    asked = list(dict.fromkeys(request.groups_names))
    replies = await ask_each(
        context, asked, GroupShard.delete_groups, lambda group_id: DeleteGroupsRequest([group_id])
    )
    response = DeleteGroupsResponse()
    for group_id, reply in zip(asked, replies, strict=True):
        if isinstance(reply, KafkaError):
            response.results.append(DeletableGroupResult(group_id, reply.code))
        elif isinstance(reply, BaseException):
            raise reply
        else:
            response.results += reply.results
    return response


def fail(request: Any, error: KafkaError, context: RequestContext) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id, error.code) for group_id in request.groups_names]
    )
