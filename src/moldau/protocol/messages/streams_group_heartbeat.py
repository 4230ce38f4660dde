"""StreamsGroupHeartbeat: membership of Kafka Streams groups, all of it.

Null stands for "unchanged". Tasks are named by subtopology and partition; numbers in a copartition group
are indexes into the lists of its subtopology.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import (
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Uint16,
    field,
    request,
    response,
    struct,
)


@struct
class KeyValue:
    key: String = field()
    value: String = field()


@struct
class TopicInfo:
    name: String = field()
    partitions: Int32 = field()
    replication_factor: Int16 = field()
    topic_configs: list[KeyValue] = field()


@struct
class CopartitionGroup:
    source_topics: list[Int16] = field()
    source_topic_regex: list[Int16] = field()
    repartition_source_topics: list[Int16] = field()


@struct
class Subtopology:
    subtopology_id: String = field()
    source_topics: list[String] = field()
    source_topic_regex: list[String] = field()
    state_changelog_topics: list[TopicInfo] = field()
    repartition_sink_topics: list[String] = field()
    repartition_source_topics: list[TopicInfo] = field()
    copartition_groups: list[CopartitionGroup] = field()


@struct
class Topology:
    epoch: Int32 = field()
    subtopologies: list[Subtopology] = field()


@struct
class TaskIds:
    subtopology_id: String = field()
    partitions: list[Int32] = field()


@struct
class Endpoint:
    host: String = field()
    port: Uint16 = field()


@struct
class TaskOffset:
    subtopology_id: String = field()
    partition: Int32 = field()
    offset: Int64 = field()


@request(ApiKey.STREAMS_GROUP_HEARTBEAT)
class StreamsGroupHeartbeatRequest:
    group_id: String = field()
    member_id: String = field()
    member_epoch: Int32 = field()
    endpoint_information_epoch: Int32 = field()
    instance_id: String | None = field(default=None)
    rack_id: String | None = field(default=None)
    rebalance_timeout_ms: Int32 = field(default=-1)
    topology: Topology | None = field()
    active_tasks: list[TaskIds] | None = field(default=None)
    standby_tasks: list[TaskIds] | None = field(default=None)
    warmup_tasks: list[TaskIds] | None = field(default=None)
    process_id: String | None = field(default=None)
    user_endpoint: Endpoint | None = field()
    client_tags: list[KeyValue] | None = field(default=None)
    task_offsets: list[TaskOffset] | None = field(default=None)
    task_end_offsets: list[TaskOffset] | None = field(default=None)
    shutdown_application: Bool = field()


@struct
class Status:
    status_code: Int8 = field()
    status_detail: String = field()


@struct
class TopicPartition:
    topic: String = field()
    partitions: list[Int32] = field()


@struct
class EndpointToPartitions:
    user_endpoint: Endpoint = field()
    active_partitions: list[TopicPartition] = field()
    standby_partitions: list[TopicPartition] = field()


@response(ApiKey.STREAMS_GROUP_HEARTBEAT)
class StreamsGroupHeartbeatResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    member_id: String = field()
    member_epoch: Int32 = field()
    heartbeat_interval_ms: Int32 = field()
    acceptable_recovery_lag: Int32 = field()
    task_offset_interval_ms: Int32 = field()
    status: list[Status] | None = field()
    active_tasks: list[TaskIds] | None = field(default=None)
    standby_tasks: list[TaskIds] | None = field(default=None)
    warmup_tasks: list[TaskIds] | None = field(default=None)
    endpoint_information_epoch: Int32 = field()
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(default=None)
