"""OffsetCommit: commits the offsets of a group.

Topics go by name up to version 9 and by id from version 10. The field ``generation_id_or_member_epoch``
holds a generation for classic groups and, from version 9, a member epoch for consumer groups.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, Int64, String, UuidBytes, field, request, response, struct


@struct
class OffsetCommitRequestPartition:
    partition_index: Int32 = field()
    committed_offset: Int64 = field()
    committed_leader_epoch: Int32 = field("6+", default=-1)
    committed_metadata: String | None = field()


@struct
class OffsetCommitRequestTopic:
    name: String = field("2-9")
    topic_id: UuidBytes = field("10+")
    partitions: list[OffsetCommitRequestPartition] = field()


@request(ApiKey.OFFSET_COMMIT)
class OffsetCommitRequest:
    group_id: String = field()
    generation_id_or_member_epoch: Int32 = field(default=-1)
    member_id: String = field()
    group_instance_id: String | None = field("7+", default=None)
    retention_time_ms: Int64 = field("2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = field()


@struct
class OffsetCommitResponsePartition:
    partition_index: Int32 = field()
    error_code: Int16 = field()


@struct
class OffsetCommitResponseTopic:
    name: String = field("2-9")
    topic_id: UuidBytes = field("10+")
    partitions: list[OffsetCommitResponsePartition] = field()


@response(ApiKey.OFFSET_COMMIT)
class OffsetCommitResponse:
    throttle_time_ms: Int32 = field("3+")
    topics: list[OffsetCommitResponseTopic] = field()
