"""ShareGroupHeartbeat: membership of share groups, all of it.

Epoch 0 joins and -1 leaves; null stands for "unchanged".
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, String, UuidBytes, field, request, response, struct


@request(ApiKey.SHARE_GROUP_HEARTBEAT)
class ShareGroupHeartbeatRequest:
    group_id: String = field()
    member_id: String = field()
    member_epoch: Int32 = field()
    rack_id: String | None = field(default=None)
    subscribed_topic_names: list[String] | None = field(default=None)


@struct
class TopicPartitions:
    topic_id: UuidBytes = field()
    partitions: list[Int32] = field()


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = field()


@response(ApiKey.SHARE_GROUP_HEARTBEAT)
class ShareGroupHeartbeatResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    member_id: String | None = field(default=None)
    member_epoch: Int32 = field()
    heartbeat_interval_ms: Int32 = field()
    assignment: Assignment | None = field()
