"""InitProducerId: v0-5.

Behaviour: without a transactional id, a new producer id with epoch 0 each time, which is all that
an idempotent producer needs.
Not done: transactional ids; they are refused until there is a transaction coordinator.
"""

from typing import Any

from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


async def handle(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A producer id goes with an epoch.")
    producer_id = await context.services.producer_ids.take()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def fail(request: Any, error: KafkaError, context: RequestContext) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)
