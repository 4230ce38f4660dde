"""AlterPartition.

Behaviour: the leader of partitions asks for other in-sync replicas; each partition has its own result. From
brokers only.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.broker.controller_requests import answer
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from moldau.security.acls import Operation

ASKS = (cluster(Operation.CLUSTER_ACTION),)


async def handle(request: AlterPartitionRequest, context: RequestContext) -> AlterPartitionResponse:
    context.check_between_brokers()
    answered: AlterPartitionResponse = await answer(context.services, request)
    return answered


def fail(request: Any, error: KafkaError, context: RequestContext) -> AlterPartitionResponse:
    return AlterPartitionResponse(error_code=error.code)
