"""CreateTopics: creates topics, or checks whether it could.

Partition count and replication factor are -1 where assignments are given or, from version 4, where the
defaults of the broker shall hold. Version 5 returns what was chosen, version 7 the topic id.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import (
    Bool,
    Int8,
    Int16,
    Int32,
    String,
    UuidBytes,
    field,
    request,
    response,
    struct,
)


@struct
class CreatableReplicaAssignment:
    partition_index: Int32 = field()
    broker_ids: list[Int32] = field()


@struct
class CreatableTopicConfig:
    name: String = field()
    value: String | None = field()


@struct
class CreatableTopic:
    name: String = field()
    num_partitions: Int32 = field()
    replication_factor: Int16 = field()
    assignments: list[CreatableReplicaAssignment] = field()
    configs: list[CreatableTopicConfig] = field()


@request(ApiKey.CREATE_TOPICS)
class CreateTopicsRequest:
    topics: list[CreatableTopic] = field()
    timeout_ms: Int32 = field(default=60000)
    validate_only: Bool = field()


@struct
class CreatableTopicConfigs:
    name: String = field()
    value: String | None = field()
    read_only: Bool = field()
    config_source: Int8 = field(default=-1)
    is_sensitive: Bool = field()


@struct
class CreatableTopicResult:
    name: String = field()
    topic_id: UuidBytes = field("7+")
    error_code: Int16 = field()
    error_message: String | None = field()
    topic_config_error_code: Int16 = field("5+", tag=0)
    num_partitions: Int32 = field("5+", default=-1)
    replication_factor: Int16 = field("5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = field("5+")


@response(ApiKey.CREATE_TOPICS)
class CreateTopicsResponse:
    throttle_time_ms: Int32 = field()
    topics: list[CreatableTopicResult] = field()
