"""RemoveRaftVoter.

Behaviour: as AddRaftVoter: there is no quorum whose voters could change.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from moldau.security.acls import Operation

ASKS = (cluster(Operation.ALTER, said="Cluster authorization failed."),)


def handle(request: RemoveRaftVoterRequest, context: RequestContext) -> RemoveRaftVoterResponse:
    if request.cluster_id not in (None, context.services.cluster_id):
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID)
    reason = "Cluster doesn't support removing voter because the kraft.version feature is 0"
    raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, reason)


def fail(request: Any, error: KafkaError, context: RequestContext) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(error_code=error.code, error_message=error.message)
