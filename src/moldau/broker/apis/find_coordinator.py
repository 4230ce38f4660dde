"""FindCoordinator: v0-6.

Behaviour: the broker that coordinates a group; the topic behind it is made when it is first asked
for, and the answer waits for it (Kafka answers COORDINATOR_NOT_AVAILABLE first).
Version notes: many keys at once from v4; share groups (v6) have no coordinator here yet.
Not done: transactions; they are refused outright, so that a producer fails with the reason instead
of waiting.
"""

from collections.abc import Awaitable
from typing import Any

from moldau.broker.context import RequestContext
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
    if request.key_type != GROUP:
        raise _refusal(request.key_type, context.api_version)
    groups = context.services.groups
    if groups.topic.name in context.services.image.topics_by_name:
        return _answer(request, context)
    return _make_and_answer(request, context)


async def _make_and_answer(
    request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    await context.services.groups.topic.make(context.services)
    return _answer(request, context)


def _answer(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    if context.api_version >= 4:
        found = [_coordinator(key, context) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = _coordinator(request.key, context)
    response = FindCoordinatorResponse(error_code=one.error_code, error_message=one.error_message)
    if not one.error_code:
        response.error_message = "NONE"  # Kafka's own word
    response.node_id, response.host, response.port = one.node_id, one.host, one.port
    return response


def _coordinator(key: str, context: RequestContext) -> Coordinator:
    services = context.services
    image = services.image
    topic = image.topics_by_name.get(services.groups.topic.name)
    leader = -1 if topic is None else topic.partitions[services.groups.partition_for(key)].leader
    broker = image.brokers.get(leader)
    listener = None if broker is None or broker.fenced else broker.listener(context.listener)
    if listener is None:
        return Coordinator(key, -1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    return Coordinator(key, leader, listener.host, listener.port, ErrorCode.NONE, "")


def _refusal(key_type: int, version: int) -> KafkaError:
    if key_type == TRANSACTION:
        return KafkaError(
            ErrorCode.INVALID_REQUEST,
            "This broker does not have transactions yet: leave transactional.id unset.",
        )
    known = key_type == SHARE and version >= 4
    return KafkaError(ErrorCode.INVALID_REQUEST, None if known else MALFORMED_REQUEST)


def fail(request: Any, error: KafkaError, context: RequestContext) -> FindCoordinatorResponse:
    message = error.message or ""
    return FindCoordinatorResponse(
        error_code=error.code,
        error_message=message,
        node_id=-1,
        port=-1,
        coordinators=[Coordinator(key, -1, "", -1, error.code, message) for key in request.coordinator_keys],
    )
