"""PushTelemetry: a client's metrics.

``metrics`` is an OTLP message, compressed as ``compression_type`` says; the subscription id comes from
GetTelemetrySubscriptions.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Bytes, Int8, Int16, Int32, UuidBytes, field, request, response


@request(ApiKey.PUSH_TELEMETRY)
class PushTelemetryRequest:
    client_instance_id: UuidBytes = field()
    subscription_id: Int32 = field()
    terminating: Bool = field()
    compression_type: Int8 = field()
    metrics: Bytes = field()


@response(ApiKey.PUSH_TELEMETRY)
class PushTelemetryResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
