"""OffsetDelete (key 47, version 0, never flexible): deletes committed offsets of a group.

Offsets of topics that the group still subscribes to stay.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, String, field, request, response, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: Int32 = field()


@struct
class OffsetDeleteRequestTopic:
    name: String = field()
    partitions: list[OffsetDeleteRequestPartition] = field()


@request(ApiKey.OFFSET_DELETE)
class OffsetDeleteRequest:
    group_id: String = field()
    topics: list[OffsetDeleteRequestTopic] = field()


@struct
class OffsetDeleteResponsePartition:
    partition_index: Int32 = field()
    error_code: Int16 = field()


@struct
class OffsetDeleteResponseTopic:
    name: String = field()
    partitions: list[OffsetDeleteResponsePartition] = field()


@response(ApiKey.OFFSET_DELETE)
class OffsetDeleteResponse:
    error_code: Int16 = field()
    throttle_time_ms: Int32 = field()
    topics: list[OffsetDeleteResponseTopic] = field()
