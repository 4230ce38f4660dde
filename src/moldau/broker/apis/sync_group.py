"""SyncGroup.

Behaviour: the leader brings everybody's assignment; a follower waits for its own.
"""

from typing import Any

from moldau.broker.access.asks import whole
from moldau.broker.context import RequestContext
from moldau.broker.coordination.group_requests import ask
from moldau.coordinators.groups.shard import GroupShard
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from moldau.security.acls import Operation, ResourceType

ASKS = (whole(Operation.READ, ResourceType.GROUP, "group_id"),)


def handle(request: SyncGroupRequest, context: RequestContext) -> Any:
    return ask(context, request.group_id, GroupShard.sync, request)


def fail(request: Any, error: KafkaError, context: RequestContext) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error.code)
