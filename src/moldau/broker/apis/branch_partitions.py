"""BranchPartitions, an API of our own.

Behaviour: this broker's part of a fork, step by step, for the controller. From brokers only.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.branch_steps import take_step
from moldau.broker.context import RequestContext
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.branch_partitions import BranchPartitionsRequest, BranchPartitionsResponse
from moldau.security.acls import Operation

ASKS = (cluster(Operation.CLUSTER_ACTION),)


async def handle(request: BranchPartitionsRequest, context: RequestContext) -> BranchPartitionsResponse:
    context.check_between_brokers()
    return await take_step(context.services, request)


def fail(request: Any, error: KafkaError, context: RequestContext) -> BranchPartitionsResponse:
    return BranchPartitionsResponse(error_code=error.code, error_message=error.message)
