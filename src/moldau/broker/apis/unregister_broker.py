"""UnregisterBroker.

Behaviour: a broker that is gone for good is forgotten; one that runs is refused (INVALID_REQUEST), where
Kafka would forget it while it runs. Forwarded to the controller.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.cluster.controller.commands import unregister_broker
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from moldau.security.acls import Operation

ASKS = (cluster(Operation.ALTER, said="Request UnregisterBroker needs ALTER permission."),)


async def handle(request: UnregisterBrokerRequest, context: RequestContext) -> UnregisterBrokerResponse:
    services = context.services
    await services.metadata.submit(
        lambda image: unregister_broker(image, request.broker_id, services.election_rules)
    )
    return UnregisterBrokerResponse(error_message="")


def fail(request: Any, error: KafkaError, context: RequestContext) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)
