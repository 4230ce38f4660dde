"""AddPartitionsToTxn: adds partitions to transactions.

Up to version 3 a client adds to its one transaction, in fields named ``v3_and_below``; from version 4
brokers send many transactions at once and may only verify. The response changes its shape in the same way.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Int16, Int32, Int64, String, field, request, response, struct


@struct
class AddPartitionsToTxnTopic:
    name: String = field()
    partitions: list[Int32] = field()


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: String = field()
    producer_id: Int64 = field()
    producer_epoch: Int16 = field()
    verify_only: Bool = field()
    topics: list[AddPartitionsToTxnTopic] = field()


@request(ApiKey.ADD_PARTITIONS_TO_TXN)
class AddPartitionsToTxnRequest:
    transactions: list[AddPartitionsToTxnTransaction] = field("4+")
    v3_and_below_transactional_id: String = field("0-3")
    v3_and_below_producer_id: Int64 = field("0-3")
    v3_and_below_producer_epoch: Int16 = field("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field("0-3")


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: Int32 = field()
    partition_error_code: Int16 = field()


@struct
class AddPartitionsToTxnTopicResult:
    name: String = field()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field()


@struct
class AddPartitionsToTxnResult:
    transactional_id: String = field()
    topic_results: list[AddPartitionsToTxnTopicResult] = field()


@response(ApiKey.ADD_PARTITIONS_TO_TXN)
class AddPartitionsToTxnResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field("4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = field("4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field("0-3")
