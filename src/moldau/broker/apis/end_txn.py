"""EndTxn.

Behaviour: commits or aborts. The answer goes out when the decision is in the coordinator's log; from
then on it holds, whatever happens to this broker, and the markers follow.
Version notes: from v5 every end gives the producer a new epoch (KIP-890).
"""

from typing import Any

from moldau.broker.access.asks import whole
from moldau.broker.context import RequestContext
from moldau.coordinators.shard import CoordinatorResult, Token
from moldau.coordinators.transactions.shard import TransactionShard
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.security.acls import Operation, ResourceType

ASKS = (whole(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),)


async def handle(request: EndTxnRequest, context: RequestContext) -> Any:
    coordinator = context.services.transactions.coordinator
    new_id = None
    if coordinator.shard(request.transactional_id).end_needs_producer_id(request.transactional_id):
        new_id = await context.services.producer_ids.take()

    def decide(shard: TransactionShard, token: Token, now_ms: int) -> CoordinatorResult:
        return shard.end_txn(request, context.api_version, new_id, token, now_ms)

    return coordinator.ask(request.transactional_id, decide)


def fail(request: Any, error: KafkaError, context: RequestContext) -> EndTxnResponse:
    return EndTxnResponse(error_code=error.code)
