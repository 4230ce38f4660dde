"""ForkTopic, an API of our own.

Behaviour: a new topic with the records of another one below a timestamp, below offsets, or all that is
committed; the same offsets, its own id. Sealed segments are shared on disk, the rest is copied. A
transaction that is open where the fork ends is aborted in the fork. The topic can be used when the answer
goes out; before that it is not visible. Every broker with a replica of the source makes its own part.
Forwarded to the controller. Not done: ``timeout_ms`` has nothing to bound.
"""

from typing import Any

from moldau.broker.access.asks import within
from moldau.broker.context import RequestContext
from moldau.broker.topic_branches import Fork, fork
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fork_topic import ForkedPartition, ForkTopicRequest, ForkTopicResponse
from moldau.security.acls import CLUSTER_NAME, Operation, ResourceType

ASKS = (within((Operation.READ, ResourceType.TOPIC), (Operation.CREATE, ResourceType.TOPIC)),)


async def handle(request: ForkTopicRequest, context: RequestContext) -> ForkTopicResponse:
    context.require(Operation.READ, ResourceType.TOPIC, request.source, said=True)
    if not context.may(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True):
        context.require(Operation.CREATE, ResourceType.TOPIC, request.name, said=True)
    offsets = {each.partition_index: each.offset for each in request.partitions}
    if request.timestamp >= 0 and offsets:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A fork ends at a timestamp or at offsets, not at both.")
    if len(offsets) != len(request.partitions):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A partition is named twice.")
    wanted = Fork(
        request.source,
        request.name,
        request.timestamp if request.timestamp >= 0 else None,
        offsets,
        {config.name: config.value for config in request.configs},
    )
    made = await fork(context.services, wanted)
    partitions = [ForkedPartition(index, *each) for index, each in enumerate(made.partitions)]
    return ForkTopicResponse(topic_id=made.topic_id, partitions=partitions)


def fail(request: Any, error: KafkaError, context: RequestContext) -> ForkTopicResponse:
    return ForkTopicResponse(error_code=error.code, error_message=error.message)
