"""DeleteShareGroupState: deletes the state of share partitions.

Sent by the group coordinator to the share coordinator.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, String, UuidBytes, field, request, response, struct


@struct
class PartitionData:
    partition: Int32 = field()


@struct
class DeleteStateData:
    topic_id: UuidBytes = field()
    partitions: list[PartitionData] = field()


@request(ApiKey.DELETE_SHARE_GROUP_STATE)
class DeleteShareGroupStateRequest:
    group_id: String = field()
    topics: list[DeleteStateData] = field()


@struct
class PartitionResult:
    partition: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)


@struct
class DeleteStateResult:
    topic_id: UuidBytes = field()
    partitions: list[PartitionResult] = field()


@response(ApiKey.DELETE_SHARE_GROUP_STATE)
class DeleteShareGroupStateResponse:
    results: list[DeleteStateResult] = field()
