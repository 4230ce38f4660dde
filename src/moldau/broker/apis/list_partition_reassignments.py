"""ListPartitionReassignments.

Behaviour: the moves that are under way, of all partitions or of those asked for; what does not move is left
out, and so is what does not exist. Forwarded to the controller.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.cluster.controller.reassignments import ongoing_reassignments
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from moldau.security.acls import Operation

ASKS = (cluster(Operation.DESCRIBE, said="Request ListPartitionReassignments needs DESCRIBE permission."),)


def handle(
    request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    asked = None
    if request.topics is not None:
        asked = {topic.name: topic.partition_indexes for topic in request.topics}
    topics: dict[str, OngoingTopicReassignment] = {}
    for partition, moving in ongoing_reassignments(context.services.image, asked).items():
        topic = topics.setdefault(partition.topic, OngoingTopicReassignment(partition.topic))
        topic.partitions.append(
            OngoingPartitionReassignment(partition.partition, *(list(replicas) for replicas in moving))
        )
    return ListPartitionReassignmentsResponse(topics=list(topics.values()))


def fail(request: Any, error: KafkaError, context: RequestContext) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
