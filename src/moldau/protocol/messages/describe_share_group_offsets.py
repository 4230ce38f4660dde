"""DescribeShareGroupOffsets: the start offsets of share groups.

A null list of topics asks for all. Lag comes with version 1.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, Int64, String, UuidBytes, field, request, response, struct


@struct
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: String = field()
    partitions: list[Int32] = field()


@struct
class DescribeShareGroupOffsetsRequestGroup:
    group_id: String = field()
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field()


@request(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)
class DescribeShareGroupOffsetsRequest:
    groups: list[DescribeShareGroupOffsetsRequestGroup] = field()


@struct
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: Int32 = field()
    start_offset: Int64 = field()
    leader_epoch: Int32 = field()
    lag: Int64 = field("1+", default=-1)
    error_code: Int16 = field()
    error_message: String | None = field(default=None)


@struct
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: String = field()
    topic_id: UuidBytes = field()
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field()


@struct
class DescribeShareGroupOffsetsResponseGroup:
    group_id: String = field()
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)


@response(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)
class DescribeShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = field()
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field()
