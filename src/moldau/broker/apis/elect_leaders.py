"""ElectLeaders.

Behaviour: lets preferred replicas lead where they are in sync, or any live replica where there is no leader
(unclean, which may lose records). Each partition has its own result; without a list every partition is meant,
and only those are named that changed or could not. Forwarded to the controller.
"""

from typing import Any

from moldau.base.names import TopicPartition
from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.cluster.controller.elections import Election
from moldau.cluster.controller.leader_elections import elect_leaders
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from moldau.security.acls import Operation

ASKS = (cluster(Operation.ALTER, said="Request ElectLeaders needs ALTER permission."),)

_ELECTIONS = (Election.PREFERRED, Election.UNCLEAN)


async def handle(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    services = context.services
    if not 0 <= request.election_type < len(_ELECTIONS):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    election = _ELECTIONS[request.election_type]
    asked = None
    if request.topic_partitions is not None:
        asked = [
            TopicPartition(each.topic, index)
            for each in request.topic_partitions
            for index in each.partitions
        ]
    outcomes = await services.metadata.execute(
        lambda image: elect_leaders(image, election, asked, services.election_rules)
    )
    # Without a list Kafka names every topic, most of them with nothing to tell.
    names = services.image.topics_by_name if asked is None else ()
    results = {name: ReplicaElectionResult(name) for name in names}
    for partition, error in outcomes:
        code, message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
        result = results.setdefault(partition.topic, ReplicaElectionResult(partition.topic))
        result.partition_result.append(PartitionResult(partition.partition, code, message))
    return ElectLeadersResponse(replica_election_results=list(results.values()))


def fail(request: Any, error: KafkaError, context: RequestContext) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            ReplicaElectionResult(
                each.topic, [PartitionResult(index, error.code, error.message) for index in each.partitions]
            )
            for each in request.topic_partitions or ()
        ],
    )
