"""DeleteRecords: moves the start of a log forward.

Offset -1 stands for the high watermark. The answer carries the new start, which Kafka calls the low
watermark.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, Int64, String, field, request, response, struct


@struct
class DeleteRecordsPartition:
    partition_index: Int32 = field()
    offset: Int64 = field()


@struct
class DeleteRecordsTopic:
    name: String = field()
    partitions: list[DeleteRecordsPartition] = field()


@request(ApiKey.DELETE_RECORDS)
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic] = field()
    timeout_ms: Int32 = field()


@struct
class DeleteRecordsPartitionResult:
    partition_index: Int32 = field()
    low_watermark: Int64 = field()
    error_code: Int16 = field()


@struct
class DeleteRecordsTopicResult:
    name: String = field()
    partitions: list[DeleteRecordsPartitionResult] = field()


@response(ApiKey.DELETE_RECORDS)
class DeleteRecordsResponse:
    throttle_time_ms: Int32 = field()
    topics: list[DeleteRecordsTopicResult] = field()
