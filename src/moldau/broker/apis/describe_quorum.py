"""DescribeQuorum.

Behaviour: there is no quorum of controllers here: the metadata log is in a store that the brokers share, and
one of them is the controller. It is named as the leader, with its controller epoch and the log's version;
every other live broker may be the next one, and is named as a voter that has what this broker has seen.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from moldau.security.acls import Operation

ASKS = (cluster(Operation.DESCRIBE),)

_METADATA_TOPIC = "__cluster_metadata"


def handle(request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
    response = DescribeQuorumResponse()
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            if topic.topic_name == _METADATA_TOPIC and asked.partition_index == 0:
                partitions.append(_quorum(context))
            else:
                partitions.append(
                    PartitionData(asked.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
                )
        response.topics.append(TopicData(topic.topic_name, partitions))
    response.nodes = [
        Node(broker.broker_id, [Listener(each.name, each.host, each.port) for each in broker.listeners])
        for broker in context.services.image.live_brokers()
    ]
    return response


def _quorum(context: RequestContext) -> PartitionData:
    image = context.services.image
    now_ms = context.services.clock.now_ms()
    return PartitionData(
        0,
        leader_id=image.controller_id,
        leader_epoch=image.controller_epoch,
        high_watermark=image.version,
        current_voters=[
            ReplicaState(
                broker.broker_id,
                log_end_offset=image.version,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
            for broker in image.live_brokers()
        ],
    )


def fail(request: Any, error: KafkaError, context: RequestContext) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=error.code, error_message=error.message)
