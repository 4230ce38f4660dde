"""ReadShareGroupStateSummary: the start offsets of share partitions.

ReadShareGroupState without the batches of offsets. Version 1 adds how many deliveries are complete.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, Int64, String, UuidBytes, field, request, response, struct


@struct
class PartitionData:
    partition: Int32 = field()
    leader_epoch: Int32 = field()


@struct
class ReadStateSummaryData:
    topic_id: UuidBytes = field()
    partitions: list[PartitionData] = field()


@request(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY)
class ReadShareGroupStateSummaryRequest:
    group_id: String = field()
    topics: list[ReadStateSummaryData] = field()


@struct
class PartitionResult:
    partition: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    state_epoch: Int32 = field()
    leader_epoch: Int32 = field()
    start_offset: Int64 = field()
    delivery_complete_count: Int32 = field("1+", default=-1)


@struct
class ReadStateSummaryResult:
    topic_id: UuidBytes = field()
    partitions: list[PartitionResult] = field()


@response(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY)
class ReadShareGroupStateSummaryResponse:
    results: list[ReadStateSummaryResult] = field()
