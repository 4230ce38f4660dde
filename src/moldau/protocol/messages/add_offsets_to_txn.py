"""AddOffsetsToTxn: adds a group's offsets to a transaction.

It puts the partition of ``__consumer_offsets`` that belongs to the group into the transaction, before
TxnOffsetCommit writes to it.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, Int64, String, field, request, response


@request(ApiKey.ADD_OFFSETS_TO_TXN)
class AddOffsetsToTxnRequest:
    transactional_id: String = field()
    producer_id: Int64 = field()
    producer_epoch: Int16 = field()
    group_id: String = field()


@response(ApiKey.ADD_OFFSETS_TO_TXN)
class AddOffsetsToTxnResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
