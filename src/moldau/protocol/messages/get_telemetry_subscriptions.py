"""GetTelemetrySubscriptions: which metrics a client shall push.

A zero client instance id asks for a new one.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Int8, Int16, Int32, String, UuidBytes, field, request, response


@request(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS)
class GetTelemetrySubscriptionsRequest:
    client_instance_id: UuidBytes = field()


@response(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS)
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    client_instance_id: UuidBytes = field()
    subscription_id: Int32 = field()
    accepted_compression_types: list[Int8] = field()
    push_interval_ms: Int32 = field()
    telemetry_max_bytes: Int32 = field()
    delta_temporality: Bool = field()
    requested_metrics: list[String] = field()
