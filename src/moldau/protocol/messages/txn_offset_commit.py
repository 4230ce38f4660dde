"""TxnOffsetCommit: commits offsets inside a transaction.

They become visible when the transaction commits. Version 3 adds the member, so that a zombie is fenced;
from version 5 the partition of the group is added to the transaction on the way.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, Int64, String, field, request, response, struct


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: Int32 = field()
    committed_offset: Int64 = field()
    committed_leader_epoch: Int32 = field("2+", default=-1)
    committed_metadata: String | None = field()


@struct
class TxnOffsetCommitRequestTopic:
    name: String = field()
    partitions: list[TxnOffsetCommitRequestPartition] = field()


@request(ApiKey.TXN_OFFSET_COMMIT)
class TxnOffsetCommitRequest:
    transactional_id: String = field()
    group_id: String = field()
    producer_id: Int64 = field()
    producer_epoch: Int16 = field()
    generation_id: Int32 = field("3+", default=-1)
    member_id: String = field("3+")
    group_instance_id: String | None = field("3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field()


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: Int32 = field()
    error_code: Int16 = field()


@struct
class TxnOffsetCommitResponseTopic:
    name: String = field()
    partitions: list[TxnOffsetCommitResponsePartition] = field()


@response(ApiKey.TXN_OFFSET_COMMIT)
class TxnOffsetCommitResponse:
    throttle_time_ms: Int32 = field()
    topics: list[TxnOffsetCommitResponseTopic] = field()
