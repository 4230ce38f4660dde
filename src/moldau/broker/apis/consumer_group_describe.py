"""ConsumerGroupDescribe.

Behaviour: state, epochs, members and their assignments of consumer groups; groups of other types and groups
that are not there are GROUP_ID_NOT_FOUND.
Version notes: v1 marks members that use the classic protocol.
"""

from moldau.broker.authorized_operations import GROUP_OPERATIONS
from moldau.broker.context import RequestContext
from moldau.broker.coordination.group_requests import ask_each
from moldau.coordinators.groups.shard import GroupShard
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


async def handle(
    request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    asked = list(dict.fromkeys(request.group_ids))
    replies = await ask_each(
        context,
        asked,
        GroupShard.consumer_describe,
        lambda group_id: ConsumerGroupDescribeRequest([group_id]),
    )
    response = ConsumerGroupDescribeResponse()
    for group_id, reply in zip(asked, replies, strict=True):
        if isinstance(reply, KafkaError):
            response.groups.append(_refused(group_id, reply))
        elif isinstance(reply, BaseException):
            raise reply
        else:
            response.groups += reply.groups
    if request.include_authorized_operations:
        for group in response.groups:
            group.authorized_operations = GROUP_OPERATIONS
    return response


def fail(
    request: ConsumerGroupDescribeRequest, error: KafkaError, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[_refused(group_id, error) for group_id in request.group_ids])


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)
