"""AllocateProducerIds.

Behaviour: a block of producer ids for one broker to give out. From brokers only.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.broker.controller_requests import answer_to_connection
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from moldau.security.acls import Operation

ASKS = (cluster(Operation.CLUSTER_ACTION),)


async def handle(request: AllocateProducerIdsRequest, context: RequestContext) -> AllocateProducerIdsResponse:
    context.check_between_brokers()
    answered: AllocateProducerIdsResponse = await answer_to_connection(context.services, request)
    return answered


def fail(request: Any, error: KafkaError, context: RequestContext) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=error.code)
