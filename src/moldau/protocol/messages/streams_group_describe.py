"""StreamsGroupDescribe: state, topology and members of Kafka Streams groups."""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Int16, Int32, Int64, String, Uint16, field, request, response, struct


@request(ApiKey.STREAMS_GROUP_DESCRIBE)
class StreamsGroupDescribeRequest:
    group_ids: list[String] = field()
    include_authorized_operations: Bool = field()


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
class Subtopology:
    subtopology_id: String = field()
    source_topics: list[String] = field()
    repartition_sink_topics: list[String] = field()
    state_changelog_topics: list[TopicInfo] = field()
    repartition_source_topics: list[TopicInfo] = field()


@struct
class Topology:
    epoch: Int32 = field()
    subtopologies: list[Subtopology] | None = field(default=None)


@struct
class Endpoint:
    host: String = field()
    port: Uint16 = field()


@struct
class TaskOffset:
    subtopology_id: String = field()
    partition: Int32 = field()
    offset: Int64 = field()


@struct
class TaskIds:
    subtopology_id: String = field()
    partitions: list[Int32] = field()


@struct
class Assignment:
    active_tasks: list[TaskIds] = field()
    standby_tasks: list[TaskIds] = field()
    warmup_tasks: list[TaskIds] = field()


@struct
class Member:
    member_id: String = field()
    member_epoch: Int32 = field()
    instance_id: String | None = field(default=None)
    rack_id: String | None = field(default=None)
    client_id: String = field()
    client_host: String = field()
    topology_epoch: Int32 = field()
    process_id: String = field()
    user_endpoint: Endpoint | None = field()
    client_tags: list[KeyValue] = field()
    task_offsets: list[TaskOffset] = field()
    task_end_offsets: list[TaskOffset] = field()
    assignment: Assignment = field()
    target_assignment: Assignment = field()
    is_classic: Bool = field()


@struct
class DescribedGroup:
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    group_id: String = field()
    group_state: String = field()
    group_epoch: Int32 = field()
    assignment_epoch: Int32 = field()
    topology: Topology | None = field()
    members: list[Member] = field()
    authorized_operations: Int32 = field(default=-2147483648)


@response(ApiKey.STREAMS_GROUP_DESCRIBE)
class StreamsGroupDescribeResponse:
    throttle_time_ms: Int32 = field()
    groups: list[DescribedGroup] = field()
