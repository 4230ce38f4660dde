"""EndTxn: commits or aborts a transaction.

With version 5 each transaction ends with a new producer epoch, which the response carries.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Int16, Int32, Int64, String, field, request, response


@request(ApiKey.END_TXN)
class EndTxnRequest:
    transactional_id: String = field()
    producer_id: Int64 = field()
    producer_epoch: Int16 = field()
    committed: Bool = field()


@response(ApiKey.END_TXN)
class EndTxnResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    producer_id: Int64 = field("5+", default=-1)
    producer_epoch: Int16 = field("5+", default=-1)
