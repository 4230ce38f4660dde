"""GetTelemetrySubscriptions, answered but not advertised.

Behaviour: that of a broker without a receiver for client metrics: an instance id, and nothing to push.
"""

from typing import Any

from moldau.base.names import ZERO_UUID
from moldau.broker.access.asks import NOTHING
from moldau.broker.context import RequestContext
from moldau.protocol.compression import Compression
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

ASKS = NOTHING
_ACCEPTED = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
_PUSH_INTERVAL_MS = 300_000
_MAX_BYTES = 1_048_576


def handle(
    request: GetTelemetrySubscriptionsRequest, context: RequestContext
) -> GetTelemetrySubscriptionsResponse:
    known = request.client_instance_id
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=context.services.new_uuid() if known == ZERO_UUID else known,
        subscription_id=0,
        accepted_compression_types=list(_ACCEPTED),
        push_interval_ms=_PUSH_INTERVAL_MS,
        telemetry_max_bytes=_MAX_BYTES,
        delta_temporality=True,
    )


def fail(request: Any, error: KafkaError, context: RequestContext) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(error_code=error.code)
