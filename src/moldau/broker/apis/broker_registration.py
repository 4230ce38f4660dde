"""BrokerRegistration.

Behaviour: a broker that starts presents itself; the answer has its broker epoch. From brokers only.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.broker.controller_requests import answer_to_connection
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from moldau.security.acls import Operation

ASKS = (cluster(Operation.CLUSTER_ACTION),)


async def handle(request: BrokerRegistrationRequest, context: RequestContext) -> BrokerRegistrationResponse:
    context.check_between_brokers()
    answered: BrokerRegistrationResponse = await answer_to_connection(context.services, request)
    return answered


def fail(request: Any, error: KafkaError, context: RequestContext) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(error_code=error.code)
