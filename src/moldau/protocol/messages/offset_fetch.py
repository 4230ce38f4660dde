"""OffsetFetch: the committed offsets of a group, or of several.

Up to version 7 one group is asked for at the top level; from version 8 ``groups`` holds any number of them,
and the top-level fields are gone. A null list of topics (version 2) asks for all. Topics go by id from
version 10.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import (
    Bool,
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
class OffsetFetchRequestTopic:
    name: String = field()
    partition_indexes: list[Int32] = field()


@struct
class OffsetFetchRequestTopics:
    name: String = field("8-9")
    topic_id: UuidBytes = field("10+")
    partition_indexes: list[Int32] = field()


@struct
class OffsetFetchRequestGroup:
    group_id: String = field()
    member_id: String | None = field("9+", default=None)
    member_epoch: Int32 = field("9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = field()


@request(ApiKey.OFFSET_FETCH)
class OffsetFetchRequest:
    group_id: String = field("1-7")
    topics: list[OffsetFetchRequestTopic] | None = field("1-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field("8+")
    require_stable: Bool = field("7+")


@struct
class OffsetFetchResponsePartition:
    partition_index: Int32 = field()
    committed_offset: Int64 = field()
    committed_leader_epoch: Int32 = field("5-7", default=-1)
    metadata: String | None = field()
    error_code: Int16 = field()


@struct
class OffsetFetchResponseTopic:
    name: String = field()
    partitions: list[OffsetFetchResponsePartition] = field()


@struct
class OffsetFetchResponsePartitions:
    partition_index: Int32 = field()
    committed_offset: Int64 = field()
    committed_leader_epoch: Int32 = field(default=-1)
    metadata: String | None = field()
    error_code: Int16 = field()


@struct
class OffsetFetchResponseTopics:
    name: String = field("8-9")
    topic_id: UuidBytes = field("10+")
    partitions: list[OffsetFetchResponsePartitions] = field()


@struct
class OffsetFetchResponseGroup:
    group_id: String = field()
    topics: list[OffsetFetchResponseTopics] = field()
    error_code: Int16 = field()


@response(ApiKey.OFFSET_FETCH)
class OffsetFetchResponse:
    throttle_time_ms: Int32 = field("3+")
    topics: list[OffsetFetchResponseTopic] = field("1-7")
    error_code: Int16 = field("2-7")
    groups: list[OffsetFetchResponseGroup] = field("8+")
