"""DescribeCluster.

Behaviour: the cluster's id, its controller and brokers as this listener sees them; fenced ones only
when asked for (v2). Asked for controllers it answers that this is a broker.
"""

from typing import Any

from moldau.broker.access.asks import NOTHING
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from moldau.security.acls import CLUSTER_NAME, ResourceType

ASKS = NOTHING
_BROKERS = 1


def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    if request.endpoint_type != _BROKERS:
        if request.endpoint_type != 2:
            message = f"Unsupported endpoint type {request.endpoint_type}"
            raise KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, message)
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, "
            "but we wanted an endpoint of type CONTROLLER",
        )
    image = context.services.image
    response = DescribeClusterResponse(
        cluster_id=context.services.cluster_id, controller_id=image.controller_id
    )
    for broker in image.brokers.values():
        listener = broker.listener(context.listener)
        if listener is None or (broker.fenced and not request.include_fenced_brokers):
            continue
        response.brokers.append(
            DescribeClusterBroker(broker.broker_id, listener.host, listener.port, broker.rack, broker.fenced)
        )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = context.operations(ResourceType.CLUSTER, CLUSTER_NAME)
    return response


def fail(request: Any, error: KafkaError, context: RequestContext) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=error.code, error_message=error.message)
