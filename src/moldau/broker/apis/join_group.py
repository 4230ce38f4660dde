"""JoinGroup.

Behaviour: a member asks to be part of a group; the answer comes when all known members have joined
or the time to do so is over. The leader gets everybody's subscription.
Version notes: from v4 a new member is first given an id (MEMBER_ID_REQUIRED); static members from v5.
"""

from typing import Any

from moldau.broker.access.asks import whole
from moldau.broker.context import RequestContext
from moldau.broker.coordination.group_requests import ask
from moldau.coordinators.groups.shard import GroupShard
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.security.acls import Operation, ResourceType

ASKS = (whole(Operation.READ, ResourceType.GROUP, "group_id"),)


def handle(request: JoinGroupRequest, context: RequestContext) -> Any:
    return ask(context, request.group_id, GroupShard.join, request)


def fail(request: JoinGroupRequest, error: KafkaError, context: RequestContext) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error.code, generation_id=-1, member_id=request.member_id)
