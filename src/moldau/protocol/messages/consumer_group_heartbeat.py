"""ConsumerGroupHeartbeat: membership of consumer groups, all of it.

Epoch 0 joins, -1 leaves, -2 leaves for a while as a static member. Null stands for "unchanged since the
last heartbeat"; the assignment is null when there is nothing new. From version 1 members make their own ids
and may subscribe by a regular expression.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, String, UuidBytes, field, request, response, struct


@struct
class TopicPartitions:
    topic_id: UuidBytes = field()
    partitions: list[Int32] = field()


@request(ApiKey.CONSUMER_GROUP_HEARTBEAT)
class ConsumerGroupHeartbeatRequest:
    group_id: String = field()
    member_id: String = field()
    member_epoch: Int32 = field()
    instance_id: String | None = field(default=None)
    rack_id: String | None = field(default=None)
    rebalance_timeout_ms: Int32 = field(default=-1)
    subscribed_topic_names: list[String] | None = field(default=None)
    subscribed_topic_regex: String | None = field("1+", default=None)
    server_assignor: String | None = field(default=None)
    topic_partitions: list[TopicPartitions] | None = field(default=None)


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = field()


@response(ApiKey.CONSUMER_GROUP_HEARTBEAT)
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    member_id: String | None = field(default=None)
    member_epoch: Int32 = field()
    heartbeat_interval_ms: Int32 = field()
    assignment: Assignment | None = field()
