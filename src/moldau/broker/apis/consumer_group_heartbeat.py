"""ConsumerGroupHeartbeat.

Behaviour: everything that a member of a consumer group (KIP-848) has to say: it joins, stays, changes what it
reads, confirms what it let go of, and leaves; the broker assigns. Answered at once, always.
Version notes: in v0 the broker makes the ids of members; from v1 members do, and may read by a regular
expression.
Not done: assignors of a member's own (Kafka has none either).
"""

from typing import Any

from moldau.broker.access.asks import whole, within
from moldau.broker.context import RequestContext
from moldau.broker.coordination.group_requests import ask
from moldau.coordinators.groups.shard import GroupShard
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from moldau.security.acls import Operation, ResourceType

ASKS = (
    whole(Operation.READ, ResourceType.GROUP, "group_id"),
    within((Operation.DESCRIBE, ResourceType.TOPIC)),
)


def handle(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> Any:
    for name in request.subscribed_topic_names or ():
        context.require(Operation.DESCRIBE, ResourceType.TOPIC, name)
    return ask(context, request.group_id, GroupShard.consumer_heartbeat, request)


def fail(request: Any, error: KafkaError, context: RequestContext) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
