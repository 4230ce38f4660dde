"""ListGroups.

Behaviour: every group that this broker coordinates; by state from v4, by type from v5. While a
shard still loads the answer says so, instead of leaving groups out.
"""

from typing import Any

from moldau.broker.access.asks import within
from moldau.broker.context import RequestContext
from moldau.coordinators.groups.shard import GroupShard
from moldau.coordinators.shard import CoordinatorResult, Token
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from moldau.security.acls import CLUSTER_NAME, Operation, ResourceType

ASKS = (within((Operation.DESCRIBE, ResourceType.CLUSTER), (Operation.DESCRIBE, ResourceType.GROUP)),)


async def handle(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    runtime = context.services.groups.runtime
    if runtime.loading:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    # Once for all shards: a client may name ten thousand.
    states = frozenset(map(str.lower, request.states_filter))
    types = frozenset(map(str.lower, request.types_filter))

    def decide(shard: GroupShard, token: Token, now_ms: int) -> CoordinatorResult:
        return shard.list_groups(states, types, token, now_ms)

    response = ListGroupsResponse()
    for partition in runtime.partitions():
        reply: ListGroupsResponse = await runtime.request(partition, decide)
        response.groups += reply.groups
    if not context.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True):
        response.groups = [
            group
            for group in response.groups
            if context.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id, quiet=True)
        ]
    return response


def fail(request: Any, error: KafkaError, context: RequestContext) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=error.code)
