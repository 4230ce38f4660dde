"""ListTransactions: v0-2.

Behaviour: the transactions that this broker coordinates, by state and producer, by how long they
are open (v1) and by a pattern (v2).
"""

from typing import Any

from moldau.broker.context import RequestContext
from moldau.coordinators.transactions.responses import listed
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


def handle(request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    services = context.services
    runtime = services.transactions.coordinator.runtime
    if runtime.loading:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    shards = [runtime.shard(partition).transactions for partition in runtime.partitions()]
    return listed(shards, request, services.clock.now_ms())


def fail(request: Any, error: KafkaError, context: RequestContext) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=error.code)
