"""DescribeGroups.

Behaviour: state, protocol and members of classic groups. A group that is not there is "Dead", with
GROUP_ID_NOT_FOUND from v6 on.
"""

from typing import Any

from moldau.broker.access.asks import every
from moldau.broker.context import RequestContext
from moldau.broker.coordination.group_requests import ask_each
from moldau.coordinators.groups.shard import GroupShard
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from moldau.security.acls import Operation, ResourceType

ASKS = (every(Operation.DESCRIBE, ResourceType.GROUP, "groups", name=None, refused_first=True),)


async def handle(request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    asked = list(dict.fromkeys(request.groups))
    replies = await ask_each(
        context, asked, GroupShard.describe, lambda group_id: DescribeGroupsRequest([group_id])
    )
    response = DescribeGroupsResponse()
    for group_id, reply in zip(asked, replies, strict=True):
        if isinstance(reply, KafkaError):
            response.groups.append(DescribedGroup(error_code=reply.code, group_id=group_id))
        elif isinstance(reply, BaseException):
            raise reply
        else:
            response.groups += reply.groups
    if request.include_authorized_operations:
        for group in response.groups:
            if group.error_code:
                continue
            group.authorized_operations = context.operations(ResourceType.GROUP, group.group_id)
    return response


def fail(request: Any, error: KafkaError, context: RequestContext) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[DescribedGroup(error_code=error.code, group_id=group_id) for group_id in request.groups]
    )
