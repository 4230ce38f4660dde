"""ListTransactions.

Behaviour: the transactions that this broker coordinates, by state and producer, by how long they
are open (v1) and by a pattern (v2).
"""

from typing import Any

from moldau.broker.access.asks import within
from moldau.broker.context import RequestContext
from moldau.coordinators.transactions.responses import listed
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from moldau.security.acls import Operation, ResourceType

ASKS = (within((Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)),)


def handle(request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    services = context.services
    runtime = services.transactions.coordinator.runtime
    if runtime.loading:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    shards = [runtime.shard(partition).transactions for partition in runtime.partitions()]
    response = listed(shards, request, services.clock.now_ms())
    response.transaction_states = [
        state
        for state in response.transaction_states
        if context.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, state.transactional_id, quiet=True)
    ]
    return response


def fail(request: Any, error: KafkaError, context: RequestContext) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=error.code)
