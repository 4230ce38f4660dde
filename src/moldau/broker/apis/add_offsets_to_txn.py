"""AddOffsetsToTxn: v0-4.

Behaviour: makes a group's offsets part of a transaction, by adding the partition that keeps them.
"""

from typing import Any

from moldau.broker.context import RequestContext
from moldau.coordinators.shard import CoordinatorResult, Token
from moldau.coordinators.transactions.shard import TransactionShard
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


async def handle(request: AddOffsetsToTxnRequest, context: RequestContext) -> AddOffsetsToTxnResponse:
    services = context.services
    await services.groups.topic.make(services)
    offsets_partition = services.groups.partition_for(request.group_id)

    def decide(shard: TransactionShard, token: Token, now_ms: int) -> CoordinatorResult:
        return shard.add_offsets_to_txn(request, context.api_version, offsets_partition, token, now_ms)

    coordinator = services.transactions.coordinator
    response: AddOffsetsToTxnResponse = await coordinator.answer(request.transactional_id, decide)
    return response


def fail(request: Any, error: KafkaError, context: RequestContext) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=error.code)
