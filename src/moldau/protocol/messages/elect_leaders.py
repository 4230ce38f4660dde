"""ElectLeaders: elects leaders, preferred or unclean.

A null list asks for all partitions. The type of election, 0 preferred and 1 unclean, comes with version 1.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int8, Int16, Int32, String, field, request, response, struct


@struct
class TopicPartitions:
    topic: String = field()
    partitions: list[Int32] = field()


@request(ApiKey.ELECT_LEADERS)
class ElectLeadersRequest:
    election_type: Int8 = field("1+")
    topic_partitions: list[TopicPartitions] | None = field()
    timeout_ms: Int32 = field(default=60000)


@struct
class PartitionResult:
    partition_id: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field()


@struct
class ReplicaElectionResult:
    topic: String = field()
    partition_result: list[PartitionResult] = field()


@response(ApiKey.ELECT_LEADERS)
class ElectLeadersResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field("1+")
    replica_election_results: list[ReplicaElectionResult] = field()
