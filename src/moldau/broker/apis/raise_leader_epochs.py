"""RaiseLeaderEpochs, an API of our own.

Behaviour: sets the leader epochs of mirrored partitions to at least the ones asked for; the same brokers
lead. All or nothing. Forwarded to the controller.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.cluster.controller.mirrors import raise_leader_epochs
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.raise_leader_epochs import RaiseLeaderEpochsRequest, RaiseLeaderEpochsResponse
from moldau.security.acls import Operation

ASKS = (cluster(Operation.CLUSTER_ACTION),)


async def handle(request: RaiseLeaderEpochsRequest, context: RequestContext) -> RaiseLeaderEpochsResponse:
    asked = {
        (topic.name, each.index): each.leader_epoch for topic in request.topics for each in topic.partitions
    }
    await context.services.metadata.execute(lambda image: raise_leader_epochs(image, asked))
    return RaiseLeaderEpochsResponse()


def fail(request: Any, error: KafkaError, context: RequestContext) -> RaiseLeaderEpochsResponse:
    return RaiseLeaderEpochsResponse(error_code=error.code, error_message=error.message)
