"""BeginRestore: a topic shall come back from a snapshot.

Ours, not Kafka's. The answer has the id that the topic will have; the batches follow with RestoreBatches,
and EndRestore makes the topic known or gives it up.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, Int64, String, UuidBytes, field, request, response, struct


@struct
class RestorePartition:
    """Partitions stand in the order of their numbers, from 0 on."""

    log_start_offset: Int64 = field()
    log_end_offset: Int64 = field()


@struct
class RestoreConfig:
    name: String = field()
    value: String = field()


@request(ApiKey.BEGIN_RESTORE)
class BeginRestoreRequest:
    name: String = field()
    partitions: list[RestorePartition] = field()
    configs: list[RestoreConfig] = field()


@response(ApiKey.BEGIN_RESTORE)
class BeginRestoreResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    topic_id: UuidBytes = field()
