"""BranchPartitions: the controller has brokers make their part of a fork.

Ours, between brokers. ``step`` says what is asked: FIND_ENDS of the leaders of the source, MAKE of every
broker with a replica, then PUBLISH or WITHDRAW. ``offset`` is where a client wants the fork to end
(FIND_ENDS, -1 where it did not say), or where it ends (MAKE); ``leader_epoch`` and ``timestamp_ms`` are those
of the markers that end transactions cut in the middle, so that every replica has the same ones.
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

FIND_ENDS, MAKE, PUBLISH, WITHDRAW = range(4)


@struct
class BranchPartition:
    partition_index: Int32 = field()
    offset: Int64 = field(default=-1)
    leader_epoch: Int32 = field(default=-1)


@request(ApiKey.BRANCH_PARTITIONS)
class BranchPartitionsRequest:
    step: Int8 = field()
    source: String = field()
    name: String = field()
    topic_id: UuidBytes = field()
    timestamp: Int64 = field(default=-1)
    timestamp_ms: Int64 = field(default=-1)
    partitions: list[BranchPartition] = field()


@struct
class BranchedPartition:
    partition_index: Int32 = field()
    log_start_offset: Int64 = field()
    cut_offset: Int64 = field()
    log_end_offset: Int64 = field()
    leader_epoch: Int32 = field(default=-1)


@response(ApiKey.BRANCH_PARTITIONS)
class BranchPartitionsResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    broker_epoch: Int64 = field(default=-1)
    partitions: list[BranchedPartition] = field()
