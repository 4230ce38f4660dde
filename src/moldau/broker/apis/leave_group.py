"""LeaveGroup.

Behaviour: members go at once instead of by their session's end; from v3 several, by id or instance.
"""

from typing import Any

from moldau.broker.access.asks import whole
from moldau.broker.context import RequestContext
from moldau.broker.coordination.group_requests import ask
from moldau.coordinators.groups.shard import GroupShard
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from moldau.security.acls import Operation, ResourceType

ASKS = (whole(Operation.READ, ResourceType.GROUP, "group_id"),)


def handle(request: LeaveGroupRequest, context: RequestContext) -> Any:
    return ask(context, request.group_id, GroupShard.leave, request)


def fail(request: Any, error: KafkaError, context: RequestContext) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error.code)
