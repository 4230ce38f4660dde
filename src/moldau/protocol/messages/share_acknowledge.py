"""ShareAcknowledge: acknowledges records of a share group.

Types are those of ShareFetch; renewals of the acquisition lock come with version 2.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import (
    Bool,
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
class AcknowledgementBatch:
    first_offset: Int64 = field()
    last_offset: Int64 = field()
    acknowledge_types: list[Int8] = field()


@struct
class AcknowledgePartition:
    partition_index: Int32 = field()
    acknowledgement_batches: list[AcknowledgementBatch] = field()


@struct
class AcknowledgeTopic:
    topic_id: UuidBytes = field()
    partitions: list[AcknowledgePartition] = field()


@request(ApiKey.SHARE_ACKNOWLEDGE)
class ShareAcknowledgeRequest:
    group_id: String | None = field(default=None)
    member_id: String | None = field()
    share_session_epoch: Int32 = field()
    is_renew_ack: Bool = field("2+")
    topics: list[AcknowledgeTopic] = field()


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = field()
    leader_epoch: Int32 = field()


@struct
class PartitionData:
    partition_index: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    current_leader: LeaderIdAndEpoch = field()


@struct
class ShareAcknowledgeTopicResponse:
    topic_id: UuidBytes = field()
    partitions: list[PartitionData] = field()


@struct
class NodeEndpoint:
    node_id: Int32 = field()
    host: String = field()
    port: Int32 = field()
    rack: String | None = field(default=None)


@response(ApiKey.SHARE_ACKNOWLEDGE)
class ShareAcknowledgeResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    acquisition_lock_timeout_ms: Int32 = field("2+")
    responses: list[ShareAcknowledgeTopicResponse] = field()
    node_endpoints: list[NodeEndpoint] = field()
