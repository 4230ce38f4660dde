"""EndRestore: makes a restored topic known, or gives it up.

Ours, not Kafka's. With ``commit`` the topic exists when the answer comes, with all that was sent; without,
nothing is left of it.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import (
    Bool,
    Int16,
    Int32,
    Int64,
    String,
    UuidBytes,
    field,
    request,
    response,
    struct,
)


@request(ApiKey.END_RESTORE)
class EndRestoreRequest:
    topic_id: UuidBytes = field()
    commit: Bool = field()


@struct
class RestoredPartition:
    partition_index: Int32 = field()
    log_start_offset: Int64 = field()
    log_end_offset: Int64 = field()


@response(ApiKey.END_RESTORE)
class EndRestoreResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    partitions: list[RestoredPartition] = field()
