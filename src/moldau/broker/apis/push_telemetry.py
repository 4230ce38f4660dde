"""PushTelemetry, answered but not advertised.

Behaviour: there is no subscription to push for, so every push names an unknown one.
"""

from typing import Any

from moldau.base.names import ZERO_UUID
from moldau.broker.access.asks import NOTHING
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

ASKS = NOTHING


def handle(request: PushTelemetryRequest, context: RequestContext) -> PushTelemetryResponse:
    if request.client_instance_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return PushTelemetryResponse(error_code=ErrorCode.UNKNOWN_SUBSCRIPTION_ID)


def fail(request: Any, error: KafkaError, context: RequestContext) -> PushTelemetryResponse:
    return PushTelemetryResponse(error_code=error.code)
