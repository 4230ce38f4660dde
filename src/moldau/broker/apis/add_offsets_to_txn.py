"""AddOffsetsToTxn.

Behaviour: makes a group's offsets part of a transaction, by adding the partition that keeps them.
"""

from typing import Any

from moldau.broker.access.asks import whole
from moldau.broker.context import RequestContext
from moldau.coordinators.shard import CoordinatorResult, Token
from moldau.coordinators.transactions.shard import TransactionShard
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from moldau.security.acls import Operation, ResourceType

ASKS = (
    whole(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
    whole(Operation.READ, ResourceType.GROUP, "group_id"),
)


async def handle(request: AddOffsetsToTxnRequest, context: RequestContext) -> Any:
    services = context.services
    await services.groups.topic.make(services)
    offsets_partition = services.groups.partition_for(request.group_id)

    def decide(shard: TransactionShard, token: Token, now_ms: int) -> CoordinatorResult:
        return shard.add_offsets_to_txn(request, context.api_version, offsets_partition, token, now_ms)

    return services.transactions.coordinator.ask(request.transactional_id, decide)


def fail(request: Any, error: KafkaError, context: RequestContext) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=error.code)
