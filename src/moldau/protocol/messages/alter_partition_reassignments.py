"""AlterPartitionReassignments: moves partitions to other brokers.

A null list of replicas cancels a reassignment under way. With version 1 a change of the replication factor
can be refused.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Int16, Int32, String, field, request, response, struct


@struct
class ReassignablePartition:
    partition_index: Int32 = field()
    replicas: list[Int32] | None = field(default=None)


@struct
class ReassignableTopic:
    name: String = field()
    partitions: list[ReassignablePartition] = field()


@request(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
class AlterPartitionReassignmentsRequest:
    timeout_ms: Int32 = field(default=60000)
    allow_replication_factor_change: Bool = field("1+", default=True)
    topics: list[ReassignableTopic] = field()


@struct
class ReassignablePartitionResponse:
    partition_index: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field()


@struct
class ReassignableTopicResponse:
    name: String = field()
    partitions: list[ReassignablePartitionResponse] = field()


@response(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = field()
    allow_replication_factor_change: Bool = field("1+", default=True)
    error_code: Int16 = field()
    error_message: String | None = field()
    responses: list[ReassignableTopicResponse] = field()
