"""ConsumerGroupDescribe: state and members of consumer groups.

Version 1 tells classic members (0) from consumer members (1).
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import (
    Bool,
    Int8,
    Int16,
    Int32,
    String,
    UuidBytes,
    field,
    request,
    response,
    struct,
)


@request(ApiKey.CONSUMER_GROUP_DESCRIBE)
class ConsumerGroupDescribeRequest:
    group_ids: list[String] = field()
    include_authorized_operations: Bool = field()


@struct
class TopicPartitions:
    topic_id: UuidBytes = field()
    topic_name: String = field()
    partitions: list[Int32] = field()


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = field()


@struct
class Member:
    member_id: String = field()
    instance_id: String | None = field(default=None)
    rack_id: String | None = field(default=None)
    member_epoch: Int32 = field()
    client_id: String = field()
    client_host: String = field()
    subscribed_topic_names: list[String] = field()
    subscribed_topic_regex: String | None = field(default=None)
    assignment: Assignment = field()
    target_assignment: Assignment = field()
    member_type: Int8 = field("1+", default=-1)


@struct
class DescribedGroup:
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    group_id: String = field()
    group_state: String = field()
    group_epoch: Int32 = field()
    assignment_epoch: Int32 = field()
    assignor_name: String = field()
    members: list[Member] = field()
    authorized_operations: Int32 = field(default=-2147483648)


@response(ApiKey.CONSUMER_GROUP_DESCRIBE)
class ConsumerGroupDescribeResponse:
    throttle_time_ms: Int32 = field()
    groups: list[DescribedGroup] = field()
