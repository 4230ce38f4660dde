"""FindCoordinator.

Behaviour: the broker that coordinates a group or a transaction; the topic behind it is made when it
is first asked for, and the answer waits for it (Kafka answers COORDINATOR_NOT_AVAILABLE first).
Version notes: many keys at once from v4; share groups (v6) have no coordinator here yet.
"""

import re
from collections.abc import Awaitable
from typing import Any

from moldau.broker.access.asks import within
from moldau.broker.access.authorized_operations import REFUSALS
from moldau.broker.bounds.turns import Steps, if_large, in_turns
from moldau.broker.context import RequestContext
from moldau.broker.coordination import shards as coordination
from moldau.protocol.errors import MALFORMED_REQUEST, ErrorCode, KafkaError
from moldau.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.security.acls import CLUSTER_NAME, Operation, ResourceType

ASKS = (
    within(
        (Operation.DESCRIBE, ResourceType.GROUP),
        (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
        (Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    ),
)
GROUP, TRANSACTION, SHARE = 0, 1, 2
#: Group, topic id and partition.
_SHARE_KEY = re.compile(r".+:[A-Za-z0-9_-]{22}:[0-9]+")
_RESOURCES = {GROUP: ResourceType.GROUP, TRANSACTION: ResourceType.TRANSACTIONAL_ID}


def handle(
    request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | Steps[FindCoordinatorResponse] | Awaitable[FindCoordinatorResponse]:
    if request.key_type == SHARE and context.api_version >= 4:
        context.require(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    coordinator = _kind(request, context)
    if context.services.authorization is not None and not any(
        _may_find(key, request.key_type, context, quiet=True) for key in _keys(request, context)
    ):
        return if_large(context, _answer(request, coordinator, context))  # and no topic is made for it
    if coordinator.topic.name in context.services.image.topics_by_name:
        return if_large(context, _answer(request, coordinator, context))
    return _make_and_answer(request, coordinator, context)


def _keys(request: FindCoordinatorRequest, context: RequestContext) -> list[str]:
    return request.coordinator_keys if context.api_version >= 4 else [request.key]


def _may_find(key: str, key_type: int, context: RequestContext, *, quiet: bool = False) -> bool:
    return context.may(Operation.DESCRIBE, _RESOURCES[key_type], key, quiet=quiet)


def _kind(request: FindCoordinatorRequest, context: RequestContext) -> coordination.Coordinator[Any]:
    key_type = request.key_type
    if key_type == GROUP:
        return context.services.groups
    if key_type == TRANSACTION:
        return context.services.transactions.coordinator
    known = key_type == SHARE and context.api_version >= 4
    if known and all(_SHARE_KEY.fullmatch(key) for key in request.coordinator_keys):
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    raise KafkaError(ErrorCode.INVALID_REQUEST, None if known else MALFORMED_REQUEST)


async def _make_and_answer(
    request: FindCoordinatorRequest, coordinator: coordination.Coordinator[Any], context: RequestContext
) -> FindCoordinatorResponse:
    await coordinator.topic.make(context.services)
    return await in_turns(_answer(request, coordinator, context))


def _answer(
    request: FindCoordinatorRequest, coordinator: coordination.Coordinator[Any], context: RequestContext
) -> Steps[FindCoordinatorResponse]:
    if context.api_version >= 4:
        found = []
        for key in request.coordinator_keys:
            yield
            found.append(_coordinator(key, request.key_type, coordinator, context))
        return FindCoordinatorResponse(coordinators=found)
    one = _coordinator(request.key, request.key_type, coordinator, context)
    response = FindCoordinatorResponse(error_code=one.error_code, error_message=one.error_message)
    if not one.error_code:
        response.error_message = "NONE"  # Kafka's own word
    response.node_id, response.host, response.port = one.node_id, one.host, one.port
    return response


def _coordinator(
    key: str, key_type: int, coordinator: coordination.Coordinator[Any], context: RequestContext
) -> Coordinator:
    if not _may_find(key, key_type, context):
        return Coordinator(key, -1, "", -1, REFUSALS[_RESOURCES[key_type]][0], "")
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
