"""Fetch: reads record batches, for consumers and for followers.

Topics go by name up to version 12 and by id from version 13. Fetch sessions begin with version 7; from
version 15 a follower names itself in the tagged ``replica_state`` instead of ``replica_id``.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import (
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    UuidBytes,
    field,
    request,
    response,
    struct,
)


@struct
class ReplicaState:
    replica_id: Int32 = field(default=-1)
    replica_epoch: Int64 = field(default=-1)


@struct
class FetchPartition:
    partition: Int32 = field()
    current_leader_epoch: Int32 = field("9+", default=-1)
    fetch_offset: Int64 = field()
    last_fetched_epoch: Int32 = field("12+", default=-1)
    log_start_offset: Int64 = field("5+", default=-1)
    partition_max_bytes: Int32 = field()
    replica_directory_id: UuidBytes = field("17+", tag=0)
    high_watermark: Int64 = field("18+", tag=1, default=9223372036854775807)


@struct
class FetchTopic:
    topic: String = field("4-12")
    topic_id: UuidBytes = field("13+")
    partitions: list[FetchPartition] = field()


@struct
class ForgottenTopic:
    topic: String = field("7-12")
    topic_id: UuidBytes = field("13+")
    partitions: list[Int32] = field()


@request(ApiKey.FETCH)
class FetchRequest:
    cluster_id: String | None = field("12+", tag=0, default=None)
    replica_id: Int32 = field("4-14", default=-1)
    replica_state: ReplicaState = field("15+", tag=1)
    max_wait_ms: Int32 = field()
    min_bytes: Int32 = field()
    max_bytes: Int32 = field(default=0x7FFFFFFF)
    isolation_level: Int8 = field()
    session_id: Int32 = field("7+")
    session_epoch: Int32 = field("7+", default=-1)
    topics: list[FetchTopic] = field()
    forgotten_topics_data: list[ForgottenTopic] = field("7+")
    rack_id: String = field("11+")


@struct
class EpochEndOffset:
    epoch: Int32 = field(default=-1)
    end_offset: Int64 = field(default=-1)


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = field(default=-1)
    leader_epoch: Int32 = field(default=-1)


@struct
class SnapshotId:
    end_offset: Int64 = field(default=-1)
    epoch: Int32 = field(default=-1)


@struct
class AbortedTransaction:
    producer_id: Int64 = field()
    first_offset: Int64 = field()


@struct
class PartitionData:
    partition_index: Int32 = field()
    error_code: Int16 = field()
    high_watermark: Int64 = field()
    last_stable_offset: Int64 = field(default=-1)
    log_start_offset: Int64 = field("5+", default=-1)
    diverging_epoch: EpochEndOffset = field("12+", tag=0)
    current_leader: LeaderIdAndEpoch = field("12+", tag=1)
    snapshot_id: SnapshotId = field("12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field()
    preferred_read_replica: Int32 = field("11+", default=-1)
    records: Records | None = field()


@struct
class FetchableTopicResponse:
    topic: String = field("4-12")
    topic_id: UuidBytes = field("13+")
    partitions: list[PartitionData] = field()


@struct
class NodeEndpoint:
    node_id: Int32 = field()
    host: String = field()
    port: Int32 = field()
    rack: String | None = field(default=None)


@response(ApiKey.FETCH)
class FetchResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field("7+")
    session_id: Int32 = field("7+")
    responses: list[FetchableTopicResponse] = field()
    node_endpoints: list[NodeEndpoint] = field("16+", tag=0)
