"""DeleteShareGroupOffsets: deletes the offsets of a share group.

The group must have no members.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, String, UuidBytes, field, request, response, struct


@struct
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: String = field()


@request(ApiKey.DELETE_SHARE_GROUP_OFFSETS)
class DeleteShareGroupOffsetsRequest:
    group_id: String = field()
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field()


@struct
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: String = field()
    topic_id: UuidBytes = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)


@response(ApiKey.DELETE_SHARE_GROUP_OFFSETS)
class DeleteShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field()
