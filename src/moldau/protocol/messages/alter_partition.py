"""AlterPartition: a leader asks the controller for another set of in-sync replicas.

Version 3 names each member with its broker epoch, so that a replica that has restarted since is not let in.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import (
    Int8,
    Int16,
    Int32,
    Int64,
    UuidBytes,
    field,
    request,
    response,
    struct,
)


@struct
class BrokerState:
    broker_id: Int32 = field()
    broker_epoch: Int64 = field(default=-1)


@struct
class PartitionDataRequest:
    partition_index: Int32 = field()
    leader_epoch: Int32 = field()
    new_isr: list[Int32] = field("0-2")
    new_isr_with_epochs: list[BrokerState] = field("3+")
    leader_recovery_state: Int8 = field()
    partition_epoch: Int32 = field()


@struct
class TopicDataRequest:
    topic_id: UuidBytes = field()
    partitions: list[PartitionDataRequest] = field()


@request(ApiKey.ALTER_PARTITION)
class AlterPartitionRequest:
    broker_id: Int32 = field()
    broker_epoch: Int64 = field(default=-1)
    topics: list[TopicDataRequest] = field()


@struct
class PartitionData:
    partition_index: Int32 = field()
    error_code: Int16 = field()
    leader_id: Int32 = field()
    leader_epoch: Int32 = field()
    isr: list[Int32] = field()
    leader_recovery_state: Int8 = field()
    partition_epoch: Int32 = field()


@struct
class TopicData:
    topic_id: UuidBytes = field()
    partitions: list[PartitionData] = field()


@response(ApiKey.ALTER_PARTITION)
class AlterPartitionResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    topics: list[TopicData] = field()
