"""InitProducerId.

Behaviour: without a transactional id, a new producer id with epoch 0 each time, which is all that
an idempotent producer needs. With one, the id that belongs to it with a new epoch: the former owner is
fenced, and what it left open is aborted first (CONCURRENT_TRANSACTIONS until that is done).
Version notes: v6 takes part in two-phase commit (KIP-939); Kafka has it, but does not advertise it.
"""

from typing import Any

from moldau.broker.access.asks import within
from moldau.broker.context import RequestContext
from moldau.coordinators.shard import CoordinatorResult, Token
from moldau.coordinators.transactions.shard import TransactionShard
from moldau.coordinators.transactions.transaction import checked_timeout_ms
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.security.acls import CLUSTER_NAME, Operation, ResourceType

ASKS = (
    within(
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
        (Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER),
        (Operation.WRITE, ResourceType.TOPIC),
    ),
)


async def handle(request: InitProducerIdRequest, context: RequestContext) -> Any:
    services = context.services
    transactional_id = request.transactional_id
    if transactional_id is not None:
        context.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    elif not _may_be_idempotent(context):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if transactional_id is None:
        return InitProducerIdResponse(producer_id=await services.producer_ids.take(), producer_epoch=0)
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    checked_timeout_ms(request, services.transactions.current_settings())  # before it costs an id
    coordinator = services.transactions.coordinator
    new_id = None
    if coordinator.shard(transactional_id).needs_producer_id(transactional_id):
        new_id = await services.producer_ids.take()

    def decide(shard: TransactionShard, token: Token, now_ms: int) -> CoordinatorResult:
        return shard.init_producer_id(request, context.api_version, new_id, token, now_ms)

    return coordinator.ask(transactional_id, decide)


def _may_be_idempotent(context: RequestContext) -> bool:
    """Whoever may write to some topic may do so idempotently (KIP-679)."""
    authorization = context.services.authorization
    if authorization is None or context.may(
        Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True
    ):
        return True
    principal, host = context.connection.principal, context.connection.host
    return authorization.authorizer.may_any(principal, host, Operation.WRITE, ResourceType.TOPIC)


def fail(request: Any, error: KafkaError, context: RequestContext) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)
