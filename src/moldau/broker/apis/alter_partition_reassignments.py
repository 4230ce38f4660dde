"""AlterPartitionReassignments.

Behaviour: moves partitions to other brokers, or cancels a move; each partition has its own result. What only
leaves is gone with the answer; what comes is waited for (ListPartitionReassignments). Forwarded to the
controller.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.cluster.controller.reassignments import Reassignment, alter_reassignments
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from moldau.security.acls import Operation

ASKS = (cluster(Operation.ALTER, said="Request AlterPartitionReassignments needs ALTER permission."),)


async def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    services = context.services
    asked = [
        Reassignment(
            topic.name, each.partition_index, None if each.replicas is None else tuple(each.replicas)
        )
        for topic in request.topics
        for each in topic.partitions
    ]
    outcomes = await services.metadata.execute(
        lambda image: alter_reassignments(
            image,
            asked,
            allow_replication_factor_change=request.allow_replication_factor_change,
            rules_of=services.election_rules,
        )
    )
    results = iter(outcomes)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                topic.name, [_result(each.partition_index, next(results)) for each in topic.partitions]
            )
            for topic in request.topics
        ],
    )


def _result(partition: int, error: KafkaError | None) -> ReassignablePartitionResponse:
    code, message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
    return ReassignablePartitionResponse(partition, code, message)


def fail(request: Any, error: KafkaError, context: RequestContext) -> AlterPartitionReassignmentsResponse:
    response = AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
    for topic in request.topics:
        refused = [
            ReassignablePartitionResponse(each.partition_index, error.code, error.message)
            for each in topic.partitions
        ]
        response.responses.append(ReassignableTopicResponse(topic.name, refused))
    return response
