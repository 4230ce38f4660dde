"""RestoreBatches: batches of a topic that is being restored.

Ours, not Kafka's. Whole batches of one partition, with the offsets and leader epochs that they had; the
answer has the offset that comes next.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import (
    Int16,
    Int32,
    Int64,
    Records,
    String,
    UuidBytes,
    field,
    request,
    response,
)


@request(ApiKey.RESTORE_BATCHES)
class RestoreBatchesRequest:
    topic_id: UuidBytes = field()
    partition_index: Int32 = field()
    records: Records | None = field()


@response(ApiKey.RESTORE_BATCHES)
class RestoreBatchesResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    next_offset: Int64 = field(default=-1)
