"""CreatePartitions: gives topics more partitions.

The count is the new total. A null list of assignments lets the broker place the new partitions.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Int16, Int32, String, field, request, response, struct


@struct
class CreatePartitionsAssignment:
    broker_ids: list[Int32] = field()


@struct
class CreatePartitionsTopic:
    name: String = field()
    count: Int32 = field()
    assignments: list[CreatePartitionsAssignment] | None = field()


@request(ApiKey.CREATE_PARTITIONS)
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic] = field()
    timeout_ms: Int32 = field()
    validate_only: Bool = field()


@struct
class CreatePartitionsTopicResult:
    name: String = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)


@response(ApiKey.CREATE_PARTITIONS)
class CreatePartitionsResponse:
    throttle_time_ms: Int32 = field()
    results: list[CreatePartitionsTopicResult] = field()
