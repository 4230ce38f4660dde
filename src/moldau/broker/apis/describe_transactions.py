"""DescribeTransactions.

Behaviour: state, producer and partitions of transactional ids, each answered alone. One that is named twice
is answered once; Kafka answers it twice.
"""

from typing import Any

from moldau.broker.access.asks import every, within
from moldau.broker.bounds.turns import Turn
from moldau.broker.context import RequestContext
from moldau.coordinators.shard import CoordinatorResult, Token
from moldau.coordinators.transactions.shard import TransactionShard
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from moldau.security.acls import Operation, ResourceType

ASKS = (
    every(
        Operation.DESCRIBE,
        ResourceType.TRANSACTIONAL_ID,
        "transactional_ids",
        name=None,
        answers="transaction_states",
    ),
    within((Operation.DESCRIBE, ResourceType.TOPIC)),
)


async def handle(
    request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    coordinator = context.services.transactions.coordinator
    response = DescribeTransactionsResponse()
    turn = Turn()
    for transactional_id in dict.fromkeys(request.transactional_ids):
        await turn.give_way()
        one = DescribeTransactionsRequest([transactional_id])

        def decide(
            shard: TransactionShard, token: Token, now_ms: int, one: DescribeTransactionsRequest = one
        ) -> CoordinatorResult:
            return shard.describe_transactions(one, context.api_version, token, now_ms)

        try:
            if not transactional_id:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            reply: DescribeTransactionsResponse = await coordinator.request(transactional_id, decide)
            response.transaction_states += reply.transaction_states
        except KafkaError as error:
            response.transaction_states.append(TransactionState(_code(error), transactional_id))
    for state in response.transaction_states:
        # Topics that the client may not know of are left out.
        state.topics = [
            topic
            for topic in state.topics
            if context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic, quiet=True)
        ]
    return response


def _code(error: KafkaError) -> int:
    """Where there is no topic of transactions yet, Kafka's broker is not the coordinator: nobody is."""
    nobody = error.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NOT_COORDINATOR if nobody else error.code


def fail(request: Any, error: KafkaError, context: RequestContext) -> DescribeTransactionsResponse:
    states = [TransactionState(error.code, each) for each in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)
