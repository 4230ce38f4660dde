"""ListOffsets: finds offsets by timestamp.

Negative timestamps ask for special places: -1 the end of the log, -2 its start, -3 the record with the
largest timestamp (version 7), -4 the start of the local log (8), -5 the end of what tiered storage holds
(9), -6 the first offset that it does not hold yet (11).
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int8, Int16, Int32, Int64, String, field, request, response, struct


@struct
class ListOffsetsPartition:
    partition_index: Int32 = field()
    current_leader_epoch: Int32 = field("4+", default=-1)
    timestamp: Int64 = field()


@struct
class ListOffsetsTopic:
    name: String = field()
    partitions: list[ListOffsetsPartition] = field()


@request(ApiKey.LIST_OFFSETS)
class ListOffsetsRequest:
    replica_id: Int32 = field()
    isolation_level: Int8 = field("2+")
    topics: list[ListOffsetsTopic] = field()
    timeout_ms: Int32 = field("10+")


@struct
class ListOffsetsPartitionResponse:
    partition_index: Int32 = field()
    error_code: Int16 = field()
    timestamp: Int64 = field(default=-1)
    offset: Int64 = field(default=-1)
    leader_epoch: Int32 = field("4+", default=-1)


@struct
class ListOffsetsTopicResponse:
    name: String = field()
    partitions: list[ListOffsetsPartitionResponse] = field()


@response(ApiKey.LIST_OFFSETS)
class ListOffsetsResponse:
    throttle_time_ms: Int32 = field("2+")
    topics: list[ListOffsetsTopicResponse] = field()
