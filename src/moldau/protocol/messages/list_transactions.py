"""ListTransactions: the transactions that a broker coordinates.

Filters apply where they are set: states, producer ids, a least duration in ms (version 1, -1 for none) and
a pattern of the transactional id (version 2). Unknown states are returned.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, Int64, String, field, request, response, struct


@request(ApiKey.LIST_TRANSACTIONS)
class ListTransactionsRequest:
    state_filters: list[String] = field()
    producer_id_filters: list[Int64] = field()
    duration_filter: Int64 = field("1+", default=-1)
    transactional_id_pattern: String | None = field("2+", default=None)


@struct
class TransactionState:
    transactional_id: String = field()
    producer_id: Int64 = field()
    transaction_state: String = field()


@response(ApiKey.LIST_TRANSACTIONS)
class ListTransactionsResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    unknown_state_filters: list[String] = field()
    transaction_states: list[TransactionState] = field()
