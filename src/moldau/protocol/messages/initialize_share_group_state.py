"""InitializeShareGroupState: creates the state of share partitions.

Sent by the group coordinator to the share coordinator.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, Int64, String, UuidBytes, field, request, response, struct


@struct
class PartitionData:
    partition: Int32 = field()
    state_epoch: Int32 = field()
    start_offset: Int64 = field()


@struct
class InitializeStateData:
    topic_id: UuidBytes = field()
    partitions: list[PartitionData] = field()


@request(ApiKey.INITIALIZE_SHARE_GROUP_STATE)
class InitializeShareGroupStateRequest:
    group_id: String = field()
    topics: list[InitializeStateData] = field()


@struct
class PartitionResult:
    partition: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)


@struct
class InitializeStateResult:
    topic_id: UuidBytes = field()
    partitions: list[PartitionResult] = field()


@response(ApiKey.INITIALIZE_SHARE_GROUP_STATE)
class InitializeShareGroupStateResponse:
    results: list[InitializeStateResult] = field()
