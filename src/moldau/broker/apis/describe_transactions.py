"""DescribeTransactions: v0.

Behaviour: state, producer and partitions of transactional ids, each answered alone.
"""

from typing import Any

from moldau.broker.context import RequestContext
from moldau.coordinators.shard import CoordinatorResult, Token
from moldau.coordinators.transactions.shard import TransactionShard
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


async def handle(
    request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    coordinator = context.services.transactions.coordinator
    response = DescribeTransactionsResponse()
    for transactional_id in request.transactional_ids:
        one = DescribeTransactionsRequest([transactional_id])

        def decide(
            shard: TransactionShard, token: Token, now_ms: int, one: DescribeTransactionsRequest = one
        ) -> CoordinatorResult:
            return shard.describe_transactions(one, context.api_version, token, now_ms)

        try:
            reply: DescribeTransactionsResponse = await coordinator.answer(transactional_id, decide)
            response.transaction_states += reply.transaction_states
        except KafkaError as error:
            response.transaction_states.append(TransactionState(error.code, transactional_id))
    return response


def fail(request: Any, error: KafkaError, context: RequestContext) -> DescribeTransactionsResponse:
    states = [TransactionState(error.code, each) for each in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)
