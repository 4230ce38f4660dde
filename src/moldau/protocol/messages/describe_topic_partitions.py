"""DescribeTopicPartitions: topics page by page.

Pages end at ``response_partition_limit`` partitions; a ``next_cursor`` that is not null says where the next
page starts. Partitions carry the eligible leader replicas, which Metadata does not have.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Int16, Int32, String, UuidBytes, field, request, response, struct


@struct
class TopicRequest:
    name: String = field()


@struct
class Cursor:
    topic_name: String = field()
    partition_index: Int32 = field()


@request(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest] = field()
    response_partition_limit: Int32 = field(default=2000)
    cursor: Cursor | None = field()


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: Int16 = field()
    partition_index: Int32 = field()
    leader_id: Int32 = field()
    leader_epoch: Int32 = field(default=-1)
    replica_nodes: list[Int32] = field()
    isr_nodes: list[Int32] = field()
    eligible_leader_replicas: list[Int32] | None = field(default=None)
    last_known_elr: list[Int32] | None = field(default=None)
    offline_replicas: list[Int32] = field()


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: Int16 = field()
    name: String | None = field()
    topic_id: UuidBytes = field()
    is_internal: Bool = field()
    partitions: list[DescribeTopicPartitionsResponsePartition] = field()
    topic_authorized_operations: Int32 = field(default=-2147483648)


@response(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
class DescribeTopicPartitionsResponse:
    throttle_time_ms: Int32 = field()
    topics: list[DescribeTopicPartitionsResponseTopic] = field()
    next_cursor: Cursor | None = field()
