"""GetTelemetrySubscriptions.

Behaviour: a client is given an id, and told which metrics to push and how often, as the subscriptions say
that match it (configs of the resource type client-metrics). Advertised while there is any subscription:
until then clients of Kafka do not ask, as with a broker that has no receiver for client metrics.
"""

from typing import Any

from moldau.base.names import ZERO_UUID
from moldau.broker.access.asks import NOTHING
from moldau.broker.context import RequestContext
from moldau.broker.monitoring.telemetry import ACCEPTED
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

ASKS = NOTHING


def handle(
    request: GetTelemetrySubscriptionsRequest, context: RequestContext
) -> GetTelemetrySubscriptionsResponse:
    services = context.services
    known = request.client_instance_id
    client = services.new_uuid() if known == ZERO_UUID else known
    instance = services.telemetry.subscribe(client, client_properties(context), services.image)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(ACCEPTED),
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=services.settings["telemetry.max.bytes"],
        delta_temporality=True,
        requested_metrics=list(instance.metrics),
    )


def client_properties(context: RequestContext) -> dict[str, str]:
    """What subscriptions can match of a client, beside its id."""
    connection = context.connection
    name, version = connection.software
    return {
        "client_id": context.client_id or "",
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": connection.host,
        "client_source_port": connection.peer.rpartition(":")[2],
    }


def fail(request: Any, error: KafkaError, context: RequestContext) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(error_code=error.code)
