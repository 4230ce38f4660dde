"""Produce: appends record batches to partitions.

Topics go by name up to version 12 and by id from version 13. Kafka still advertises versions 0 to 2,
because old librdkafka looks for them; they lack the transactional id. A request with acks=0 has no
response.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import (
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
class PartitionProduceData:
    index: Int32 = field()
    records: Records | None = field()


@struct
class TopicProduceData:
    name: String = field("0-12")
    topic_id: UuidBytes = field("13+")
    partition_data: list[PartitionProduceData] = field()


@request(ApiKey.PRODUCE)
class ProduceRequest:
    transactional_id: String | None = field("3+", default=None)
    acks: Int16 = field()
    timeout_ms: Int32 = field()
    topic_data: list[TopicProduceData] = field()


@struct
class BatchIndexAndErrorMessage:
    batch_index: Int32 = field()
    batch_index_error_message: String | None = field(default=None)


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = field(default=-1)
    leader_epoch: Int32 = field(default=-1)


@struct
class PartitionProduceResponse:
    index: Int32 = field()
    error_code: Int16 = field()
    base_offset: Int64 = field()
    log_append_time_ms: Int64 = field("2+", default=-1)
    log_start_offset: Int64 = field("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field("8+")
    error_message: String | None = field("8+", default=None)
    current_leader: LeaderIdAndEpoch = field("10+", tag=0)


@struct
class TopicProduceResponse:
    name: String = field("0-12")
    topic_id: UuidBytes = field("13+")
    partition_responses: list[PartitionProduceResponse] = field()


@struct
class NodeEndpoint:
    node_id: Int32 = field()
    host: String = field()
    port: Int32 = field()
    rack: String | None = field(default=None)


@response(ApiKey.PRODUCE)
class ProduceResponse:
    responses: list[TopicProduceResponse] = field()
    throttle_time_ms: Int32 = field("1+")
    node_endpoints: list[NodeEndpoint] = field("10+", tag=0)
