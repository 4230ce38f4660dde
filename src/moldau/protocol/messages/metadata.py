"""Metadata: the brokers, and topics with their leaders and replicas.

A null list of topics asks for all of them; version 0 knows no null there, and an empty list means the same.
Topic ids come with version 10; a topic can be asked for by id alone, its name null, from version 12.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Int16, Int32, String, UuidBytes, field, request, response, struct


@struct
class MetadataRequestTopic:
    topic_id: UuidBytes = field("10+")
    name: String | None = field(nullable="10+")


@request(ApiKey.METADATA)
class MetadataRequest:
    topics: list[MetadataRequestTopic] | None = field(nullable="1+")
    allow_auto_topic_creation: Bool = field("4+", default=True)
    include_cluster_authorized_operations: Bool = field("8-10")
    include_topic_authorized_operations: Bool = field("8+")


@struct
class MetadataResponseBroker:
    node_id: Int32 = field()
    host: String = field()
    port: Int32 = field()
    rack: String | None = field("1+", default=None)


@struct
class MetadataResponsePartition:
    error_code: Int16 = field()
    partition_index: Int32 = field()
    leader_id: Int32 = field()
    leader_epoch: Int32 = field("7+", default=-1)
    replica_nodes: list[Int32] = field()
    isr_nodes: list[Int32] = field()
    offline_replicas: list[Int32] = field("5+")


@struct
class MetadataResponseTopic:
    error_code: Int16 = field()
    name: String | None = field(nullable="12+")
    topic_id: UuidBytes = field("10+")
    is_internal: Bool = field("1+")
    partitions: list[MetadataResponsePartition] = field()
    topic_authorized_operations: Int32 = field("8+", default=-2147483648)


@response(ApiKey.METADATA)
class MetadataResponse:
    throttle_time_ms: Int32 = field("3+")
    brokers: list[MetadataResponseBroker] = field()
    cluster_id: String | None = field("2+", default=None)
    controller_id: Int32 = field("1+", default=-1)
    topics: list[MetadataResponseTopic] = field()
    cluster_authorized_operations: Int32 = field("8-10", default=-2147483648)
    error_code: Int16 = field("13+")
