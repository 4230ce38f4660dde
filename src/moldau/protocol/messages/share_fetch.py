"""ShareFetch: reads records for a share group and acknowledges earlier ones.

Each acknowledgement batch has one type for all its offsets or one for each: 0 gap, 1 accept, 2 release, 3
reject, 4 renew (version 2).
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import (
    Bool,
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
class AcknowledgementBatch:
    first_offset: Int64 = field()
    last_offset: Int64 = field()
    acknowledge_types: list[Int8] = field()


@struct
class FetchPartition:
    partition_index: Int32 = field()
    acknowledgement_batches: list[AcknowledgementBatch] = field()


@struct
class FetchTopic:
    topic_id: UuidBytes = field()
    partitions: list[FetchPartition] = field()


@struct
class ForgottenTopic:
    topic_id: UuidBytes = field()
    partitions: list[Int32] = field()


@request(ApiKey.SHARE_FETCH)
class ShareFetchRequest:
    group_id: String | None = field(default=None)
    member_id: String | None = field()
    share_session_epoch: Int32 = field()
    max_wait_ms: Int32 = field()
    min_bytes: Int32 = field()
    max_bytes: Int32 = field(default=0x7FFFFFFF)
    max_records: Int32 = field()
    batch_size: Int32 = field()
    share_acquire_mode: Int8 = field("2+")
    is_renew_ack: Bool = field("2+")
    topics: list[FetchTopic] = field()
    forgotten_topics_data: list[ForgottenTopic] = field()


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = field()
    leader_epoch: Int32 = field()


@struct
class AcquiredRecords:
    first_offset: Int64 = field()
    last_offset: Int64 = field()
    delivery_count: Int16 = field()


@struct
class PartitionData:
    partition_index: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    acknowledge_error_code: Int16 = field()
    acknowledge_error_message: String | None = field(default=None)
    current_leader: LeaderIdAndEpoch = field()
    records: Records = field()
    acquired_records: list[AcquiredRecords] = field()


@struct
class ShareFetchableTopicResponse:
    topic_id: UuidBytes = field()
    partitions: list[PartitionData] = field()


@struct
class NodeEndpoint:
    node_id: Int32 = field()
    host: String = field()
    port: Int32 = field()
    rack: String | None = field(default=None)


@response(ApiKey.SHARE_FETCH)
class ShareFetchResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    acquisition_lock_timeout_ms: Int32 = field()
    responses: list[ShareFetchableTopicResponse] = field()
    node_endpoints: list[NodeEndpoint] = field()
