"""ReadShareGroupState: the state of share partitions.

Sent by the leader of a partition to the share coordinator. Kafka keeps the leader epoch in the request to
fence former leaders.
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
class PartitionData:
    partition: Int32 = field()
    leader_epoch: Int32 = field()


@struct
class ReadStateData:
    topic_id: UuidBytes = field()
    partitions: list[PartitionData] = field()


@request(ApiKey.READ_SHARE_GROUP_STATE)
class ReadShareGroupStateRequest:
    group_id: String = field()
    topics: list[ReadStateData] = field()


@struct
class StateBatch:
    first_offset: Int64 = field()
    last_offset: Int64 = field()
    delivery_state: Int8 = field()
    delivery_count: Int16 = field()


@struct
class PartitionResult:
    partition: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    state_epoch: Int32 = field()
    start_offset: Int64 = field()
    state_batches: list[StateBatch] = field()


@struct
class ReadStateResult:
    topic_id: UuidBytes = field()
    partitions: list[PartitionResult] = field()


@response(ApiKey.READ_SHARE_GROUP_STATE)
class ReadShareGroupStateResponse:
    results: list[ReadStateResult] = field()
