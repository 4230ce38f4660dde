"""AlterShareGroupOffsets: moves the start offsets of a share group.

The group must have no members.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, Int64, String, UuidBytes, field, request, response, struct


@struct
class AlterShareGroupOffsetsRequestPartition:
    partition_index: Int32 = field()
    start_offset: Int64 = field()


@struct
class AlterShareGroupOffsetsRequestTopic:
    topic_name: String = field()
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field()


@request(ApiKey.ALTER_SHARE_GROUP_OFFSETS)
class AlterShareGroupOffsetsRequest:
    group_id: String = field()
    topics: list[AlterShareGroupOffsetsRequestTopic] = field()


@struct
class AlterShareGroupOffsetsResponsePartition:
    partition_index: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)


@struct
class AlterShareGroupOffsetsResponseTopic:
    topic_name: String = field()
    topic_id: UuidBytes = field()
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field()


@response(ApiKey.ALTER_SHARE_GROUP_OFFSETS)
class AlterShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = field()
