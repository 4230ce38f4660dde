"""BrokerHeartbeat.

Behaviour: a broker wants to shut down, or to be fenced. It is told to shut down when it leads nothing
more. From brokers only: whether a broker is alive is known from its session in the metadata store, so one
that has a session is not fenced because of a request.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.broker.controller_requests import answer_to_connection
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from moldau.security.acls import Operation

ASKS = (cluster(Operation.CLUSTER_ACTION),)


async def handle(request: BrokerHeartbeatRequest, context: RequestContext) -> BrokerHeartbeatResponse:
    context.check_between_brokers()
    answered: BrokerHeartbeatResponse = await answer_to_connection(context.services, request)
    return answered


def fail(request: Any, error: KafkaError, context: RequestContext) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(error_code=error.code)
