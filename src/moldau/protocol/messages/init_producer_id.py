"""InitProducerId: hands out a producer id and epoch.

Without a transactional id every request gets a new id; with one, the epoch grows and the former producer is
fenced. Version 6 belongs to two-phase commit: Kafka has it in its schema but advertises 5.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Int16, Int32, Int64, String, field, request, response


@request(ApiKey.INIT_PRODUCER_ID)
class InitProducerIdRequest:
    transactional_id: String | None = field()
    transaction_timeout_ms: Int32 = field()
    producer_id: Int64 = field("3+", default=-1)
    producer_epoch: Int16 = field("3+", default=-1)
    enable2_pc: Bool = field("6+")
    keep_prepared_txn: Bool = field("6+")


@response(ApiKey.INIT_PRODUCER_ID)
class InitProducerIdResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    producer_id: Int64 = field(default=-1)
    producer_epoch: Int16 = field()
    ongoing_txn_producer_id: Int64 = field("6+", default=-1)
    ongoing_txn_producer_epoch: Int16 = field("6+", default=-1)
