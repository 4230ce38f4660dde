"""OffsetForLeaderEpoch: where the records of a leader epoch end.

Followers and consumers ask it after a change of leader, to find the point up to which their log agrees with
the leader's.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, Int64, String, field, request, response, struct


@struct
class OffsetForLeaderPartition:
    partition: Int32 = field()
    current_leader_epoch: Int32 = field(default=-1)
    leader_epoch: Int32 = field()


@struct
class OffsetForLeaderTopic:
    topic: String = field()
    partitions: list[OffsetForLeaderPartition] = field()


@request(ApiKey.OFFSET_FOR_LEADER_EPOCH)
class OffsetForLeaderEpochRequest:
    replica_id: Int32 = field("3+", default=-2)
    topics: list[OffsetForLeaderTopic] = field()


@struct
class EpochEndOffset:
    error_code: Int16 = field()
    partition: Int32 = field()
    leader_epoch: Int32 = field(default=-1)
    end_offset: Int64 = field(default=-1)


@struct
class OffsetForLeaderTopicResult:
    topic: String = field()
    partitions: list[EpochEndOffset] = field()


@response(ApiKey.OFFSET_FOR_LEADER_EPOCH)
class OffsetForLeaderEpochResponse:
    throttle_time_ms: Int32 = field()
    topics: list[OffsetForLeaderTopicResult] = field()
