"""ConsumerGroupDescribe.

Behaviour: state, epochs, members and their assignments of consumer groups; groups of other types and groups
that are not there are GROUP_ID_NOT_FOUND.
Version notes: v1 marks members that use the classic protocol.
"""

from moldau.broker.access.asks import every, within
from moldau.broker.context import RequestContext
from moldau.broker.coordination.group_requests import ask_each
from moldau.coordinators.groups.shard import GroupShard
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from moldau.security.acls import Operation, ResourceType

ASKS = (
    every(
        Operation.DESCRIBE, ResourceType.GROUP, "group_ids", name=None, answers="groups", refused_first=True
    ),
    within((Operation.DESCRIBE, ResourceType.TOPIC)),
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
            group.authorized_operations = context.operations(ResourceType.GROUP, group.group_id)
    if context.services.authorization is not None:
        response.groups = [_hidden(group, context) for group in response.groups]
    return response


def _hidden(group: DescribedGroup, context: RequestContext) -> DescribedGroup:
    """A group whose members have topics that the client may not know of is not shown at all."""
    names = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    if all(context.may(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in sorted(names)):
        return group
    return DescribedGroup(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The described group uses topics that the client is not authorized to describe.",
        group_id=group.group_id,
    )


def fail(
    request: ConsumerGroupDescribeRequest, error: KafkaError, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[_refused(group_id, error) for group_id in request.group_ids])


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)
