"""Heartbeat.

Behaviour: a member shows that it is alive, and learns whether a rebalance is in progress.
"""

from typing import Any

from moldau.broker.access.asks import whole
from moldau.broker.context import RequestContext
from moldau.broker.coordination.group_requests import ask
from moldau.coordinators.groups.shard import GroupShard
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.security.acls import Operation, ResourceType

ASKS = (whole(Operation.READ, ResourceType.GROUP, "group_id"),)


def handle(request: HeartbeatRequest, context: RequestContext) -> Any:
    return ask(context, request.group_id, GroupShard.heartbeat, request)


def fail(request: Any, error: KafkaError, context: RequestContext) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error.code)
