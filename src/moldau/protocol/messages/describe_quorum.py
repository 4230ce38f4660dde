"""DescribeQuorum: the state of the quorum that keeps the metadata.

The topics and partitions of request and response share their names in Kafka; here those of the request end in
``Request``.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import (
    Int16,
    Int32,
    Int64,
    String,
    Uint16,
    UuidBytes,
    field,
    request,
    response,
    struct,
)


@struct
class PartitionDataRequest:
    partition_index: Int32 = field()


@struct
class TopicDataRequest:
    topic_name: String = field()
    partitions: list[PartitionDataRequest] = field()


@request(ApiKey.DESCRIBE_QUORUM)
class DescribeQuorumRequest:
    topics: list[TopicDataRequest] = field()


@struct
class ReplicaState:
    replica_id: Int32 = field()
    replica_directory_id: UuidBytes = field("2+")
    log_end_offset: Int64 = field()
    last_fetch_timestamp: Int64 = field("1+", default=-1)
    last_caught_up_timestamp: Int64 = field("1+", default=-1)


@struct
class PartitionData:
    partition_index: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field("2+")
    leader_id: Int32 = field()
    leader_epoch: Int32 = field()
    high_watermark: Int64 = field()
    current_voters: list[ReplicaState] = field()
    observers: list[ReplicaState] = field()


@struct
class TopicData:
    topic_name: String = field()
    partitions: list[PartitionData] = field()


@struct
class Listener:
    name: String = field()
    host: String = field()
    port: Uint16 = field()


@struct
class Node:
    node_id: Int32 = field()
    listeners: list[Listener] = field()


@response(ApiKey.DESCRIBE_QUORUM)
class DescribeQuorumResponse:
    error_code: Int16 = field()
    error_message: String | None = field("2+")
    topics: list[TopicData] = field()
    nodes: list[Node] = field("2+")
