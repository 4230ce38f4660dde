"""PushTelemetry.

Behaviour: takes a client's metrics (OTLP), which ``/metrics`` then shows with the client's id. A push for
another subscription than the client's is refused, one too early too, and everything after a terminating
one. Bytes that are no OTLP are answered like any others, as Kafka does.
"""

from typing import Any

from moldau.base.names import ZERO_UUID
from moldau.broker.access.asks import NOTHING
from moldau.broker.apis.get_telemetry_subscriptions import client_properties
from moldau.broker.bounds.turns import Steps
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

ASKS = NOTHING


def handle(request: PushTelemetryRequest, context: RequestContext) -> Steps[PushTelemetryResponse]:
    if request.client_instance_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    services, client = context.services, request.client_instance_id
    return _taken(services.telemetry.push(client, client_properties(context), services.image, request))


def _taken(steps: Steps[None]) -> Steps[PushTelemetryResponse]:
    yield from steps
    return PushTelemetryResponse()


def fail(request: Any, error: KafkaError, context: RequestContext) -> PushTelemetryResponse:
    return PushTelemetryResponse(error_code=error.code)
