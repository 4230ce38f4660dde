"""FindCoordinator: v0-6.

Behaviour: consumer groups and transactions have no coordinator in this broker yet. A group is told
COORDINATOR_NOT_AVAILABLE, which clients that assign their partitions by hand pass over; a
transaction is refused outright, so that its producer fails with the reason instead of waiting.
"""

import logging
from typing import Any

from moldau.broker.context import RequestContext
from moldau.protocol.errors import MALFORMED_REQUEST, ErrorCode, KafkaError
from moldau.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

log = logging.getLogger("moldau.broker.coordinators")

GROUP, TRANSACTION, SHARE = 0, 1, 2


def handle(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    error = _refusal(request.key_type, context.api_version)
    keys = request.coordinator_keys if context.api_version >= 4 else [request.key]
    for key in keys:
        log.debug("no coordinator for %r (type %d): %s", key, request.key_type, error)
    return _answer(request, error)


def _refusal(key_type: int, version: int) -> KafkaError:
    if key_type == GROUP:
        return KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            "This broker does not have consumer groups yet: assign partitions by hand.",
        )
    if key_type == TRANSACTION:
        return KafkaError(
            ErrorCode.INVALID_REQUEST,
            "This broker does not have transactions yet: leave transactional.id unset.",
        )
    known = key_type == SHARE and version >= 4
    return KafkaError(ErrorCode.INVALID_REQUEST, None if known else MALFORMED_REQUEST)


def _answer(request: FindCoordinatorRequest, error: KafkaError) -> FindCoordinatorResponse:
    message = error.message or ""
    return FindCoordinatorResponse(
        error_code=error.code,
        error_message=message,
        node_id=-1,
        port=-1,
        coordinators=[Coordinator(key, -1, "", -1, error.code, message) for key in request.coordinator_keys],
    )


def fail(request: Any, error: KafkaError, context: RequestContext) -> FindCoordinatorResponse:
    return _answer(request, error)
