"""AddRaftVoter.

Behaviour: there is no quorum whose voters could change: the metadata log is in a store that brokers share.
Answered as Kafka does where the voters are fixed: UNSUPPORTED_VERSION.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from moldau.security.acls import Operation

ASKS = (cluster(Operation.ALTER, said="Cluster authorization failed."),)


def handle(request: AddRaftVoterRequest, context: RequestContext) -> AddRaftVoterResponse:
    if request.cluster_id not in (None, context.services.cluster_id):
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID)
    reason = "Cluster doesn't support adding voter because the kraft.version feature is 0"
    raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, reason)


def fail(request: Any, error: KafkaError, context: RequestContext) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(error_code=error.code, error_message=error.message)
