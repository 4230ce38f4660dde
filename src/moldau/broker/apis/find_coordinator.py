"""FindCoordinator.

Behaviour: the broker that coordinates a group or a transaction; the topic behind it is made when it
is first asked for, and the answer waits for it (Kafka answers COORDINATOR_NOT_AVAILABLE first).
Version notes: many keys at once from v4; share groups (v6) have no coordinator here yet.
"""

from collections.abc import Awaitable
from typing import Any

from moldau.broker.context import RequestContext
from moldau.broker.coordination import shards as coordination
from moldau.protocol.errors import MALFORMED_REQUEST, ErrorCode, KafkaError
from moldau.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP, TRANSACTION, SHARE = 0, 1, 2


def handle(
    request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    coordinator = _kind(request.key_type, context)
    if coordinator.topic.name in context.services.image.topics_by_name:
        return _answer(request, coordinator, context)
    return _make_and_answer(request, coordinator, context)


def _kind(key_type: int, context: RequestContext) -> coordination.Coordinator[Any]:
    if key_type == GROUP:
        return context.services.groups
    if key_type == TRANSACTION:
        return context.services.transactions.coordinator
    known = key_type == SHARE and context.api_version >= 4
    raise KafkaError(ErrorCode.INVALID_REQUEST, None if known else MALFORMED_REQUEST)


async def _make_and_answer(
    request: FindCoordinatorRequest, coordinator: coordination.Coordinator[Any], context: RequestContext
) -> FindCoordinatorResponse:
    await coordinator.topic.make(context.services)
    return _answer(request, coordinator, context)


def _answer(
    request: FindCoordinatorRequest, coordinator: coordination.Coordinator[Any], context: RequestContext
) -> FindCoordinatorResponse:
    if context.api_version >= 4:
        found = [_coordinator(key, coordinator, context) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = _coordinator(request.key, coordinator, context)
    response = FindCoordinatorResponse(error_code=one.error_code, error_message=one.error_message)
    if not one.error_code:
        response.error_message = "NONE"  # Kafka's own word
    response.node_id, response.host, response.port = one.node_id, one.host, one.port
    return response


def _coordinator(
    key: str, coordinator: coordination.Coordinator[Any], context: RequestContext
) -> Coordinator:
    image = context.services.image
    topic = image.topics_by_name.get(coordinator.topic.name)
    leader = -1 if topic is None else topic.partitions[coordinator.partition_for(key)].leader
    broker = image.brokers.get(leader)
    listener = None if broker is None or broker.fenced else broker.listener(context.listener)
    if listener is None:
        return Coordinator(key, -1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    return Coordinator(key, leader, listener.host, listener.port, ErrorCode.NONE, "")


def fail(request: Any, error: KafkaError, context: RequestContext) -> FindCoordinatorResponse:
    message = error.message or ""
    return FindCoordinatorResponse(
        error_code=error.code,
        error_message=message,
        node_id=-1,
        port=-1,
        coordinators=[Coordinator(key, -1, "", -1, error.code, message) for key in request.coordinator_keys],
    )
