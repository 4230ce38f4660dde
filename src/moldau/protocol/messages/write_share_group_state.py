"""WriteShareGroupState: writes the state of share partitions.

Sent by the leader of a partition to the share coordinator. Start offset -1 leaves the start as it is.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import (
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    UuidBytes,
    field,
    request,
    response,
    struct,
)


@struct
class StateBatch:
    first_offset: Int64 = field()
    last_offset: Int64 = field()
    delivery_state: Int8 = field()
    delivery_count: Int16 = field()


@struct
class PartitionData:
    partition: Int32 = field()
    state_epoch: Int32 = field()
    leader_epoch: Int32 = field()
    start_offset: Int64 = field()
    delivery_complete_count: Int32 = field("1+", default=-1)
    state_batches: list[StateBatch] = field()


@struct
class WriteStateData:
    topic_id: UuidBytes = field()
    partitions: list[PartitionData] = field()


@request(ApiKey.WRITE_SHARE_GROUP_STATE)
class WriteShareGroupStateRequest:
    group_id: String = field()
    topics: list[WriteStateData] = field()


@struct
class PartitionResult:
    partition: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)


@struct
class WriteStateResult:
    topic_id: UuidBytes = field()
    partitions: list[PartitionResult] = field()


@response(ApiKey.WRITE_SHARE_GROUP_STATE)
class WriteShareGroupStateResponse:
    results: list[WriteStateResult] = field()
