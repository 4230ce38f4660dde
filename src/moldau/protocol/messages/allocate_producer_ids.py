"""AllocateProducerIds: a broker asks the controller for a block of producer ids to give out."""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, Int64, field, request, response


@request(ApiKey.ALLOCATE_PRODUCER_IDS)
class AllocateProducerIdsRequest:
    broker_id: Int32 = field()
    broker_epoch: Int64 = field(default=-1)


@response(ApiKey.ALLOCATE_PRODUCER_IDS)
class AllocateProducerIdsResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    producer_id_start: Int64 = field()
    producer_id_len: Int32 = field()
