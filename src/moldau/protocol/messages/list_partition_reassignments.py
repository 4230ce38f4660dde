"""ListPartitionReassignments: the reassignments under way.

A null list of topics asks for all.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, String, field, request, response, struct


@struct
class ListPartitionReassignmentsTopics:
    name: String = field()
    partition_indexes: list[Int32] = field()


@request(ApiKey.LIST_PARTITION_REASSIGNMENTS)
class ListPartitionReassignmentsRequest:
    timeout_ms: Int32 = field(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(default=None)


@struct
class OngoingPartitionReassignment:
    partition_index: Int32 = field()
    replicas: list[Int32] = field()
    adding_replicas: list[Int32] = field()
    removing_replicas: list[Int32] = field()


@struct
class OngoingTopicReassignment:
    name: String = field()
    partitions: list[OngoingPartitionReassignment] = field()


@response(ApiKey.LIST_PARTITION_REASSIGNMENTS)
class ListPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field()
    topics: list[OngoingTopicReassignment] = field()
