"""ForkTopic: a new topic with the records of another one up to a point.

Ours, not Kafka's. The point is a timestamp (records up to it belong to the fork), an offset for each
partition that is named, or where neither is given the last stable offset. ``configs`` change those of the
source; null takes one away. The answer says where each partition of the new topic begins, where it was cut,
and where it goes on, which is later by the markers that end transactions cut in the middle.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, Int64, String, UuidBytes, field, request, response, struct


@struct
class ForkPartition:
    partition_index: Int32 = field()
    offset: Int64 = field()


@struct
class ForkConfig:
    name: String = field()
    value: String | None = field()


@request(ApiKey.FORK_TOPIC)
class ForkTopicRequest:
    source: String = field()
    name: String = field()
    timestamp: Int64 = field(default=-1)
    partitions: list[ForkPartition] = field()
    configs: list[ForkConfig] = field()
    timeout_ms: Int32 = field(default=60000)


@struct
class ForkedPartition:
    partition_index: Int32 = field()
    log_start_offset: Int64 = field()
    cut_offset: Int64 = field()
    log_end_offset: Int64 = field()


@response(ApiKey.FORK_TOPIC)
class ForkTopicResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    topic_id: UuidBytes = field()
    partitions: list[ForkedPartition] = field()
