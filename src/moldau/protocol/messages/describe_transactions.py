"""DescribeTransactions: state and partitions of transactions."""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, Int64, String, field, request, response, struct


@request(ApiKey.DESCRIBE_TRANSACTIONS)
class DescribeTransactionsRequest:
    transactional_ids: list[String] = field()


@struct
class TopicData:
    topic: String = field()
    partitions: list[Int32] = field()


@struct
class TransactionState:
    error_code: Int16 = field()
    transactional_id: String = field()
    transaction_state: String = field()
    transaction_timeout_ms: Int32 = field()
    transaction_start_time_ms: Int64 = field()
    producer_id: Int64 = field()
    producer_epoch: Int16 = field()
    topics: list[TopicData] = field()


@response(ApiKey.DESCRIBE_TRANSACTIONS)
class DescribeTransactionsResponse:
    throttle_time_ms: Int32 = field()
    transaction_states: list[TransactionState] = field()
