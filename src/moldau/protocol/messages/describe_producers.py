"""DescribeProducers: the producers that a partition remembers.

The last sequence and, where there is one, the first offset of an open transaction: how hanging transactions
are found.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, Int64, String, field, request, response, struct


@struct
class TopicRequest:
    name: String = field()
    partition_indexes: list[Int32] = field()


@request(ApiKey.DESCRIBE_PRODUCERS)
class DescribeProducersRequest:
    topics: list[TopicRequest] = field()


@struct
class ProducerState:
    producer_id: Int64 = field()
    producer_epoch: Int32 = field()
    last_sequence: Int32 = field(default=-1)
    last_timestamp: Int64 = field(default=-1)
    coordinator_epoch: Int32 = field()
    current_txn_start_offset: Int64 = field(default=-1)


@struct
class PartitionResponse:
    partition_index: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    active_producers: list[ProducerState] = field()


@struct
class TopicResponse:
    name: String = field()
    partitions: list[PartitionResponse] = field()


@response(ApiKey.DESCRIBE_PRODUCERS)
class DescribeProducersResponse:
    throttle_time_ms: Int32 = field()
    topics: list[TopicResponse] = field()
