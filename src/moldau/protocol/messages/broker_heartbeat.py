"""BrokerHeartbeat: a broker tells the controller what it wants: to be fenced, or to shut down."""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Int16, Int32, Int64, UuidBytes, field, request, response


@request(ApiKey.BROKER_HEARTBEAT)
class BrokerHeartbeatRequest:
    broker_id: Int32 = field()
    broker_epoch: Int64 = field(default=-1)
    current_metadata_offset: Int64 = field()
    want_fence: Bool = field()
    want_shut_down: Bool = field()
    offline_log_dirs: list[UuidBytes] = field("1+", tag=0, tagged="1+")
    cordoned_log_dirs: list[UuidBytes] | None = field("2+", tag=1, tagged="2+", default=None)


@response(ApiKey.BROKER_HEARTBEAT)
class BrokerHeartbeatResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    is_caught_up: Bool = field()
    is_fenced: Bool = field(default=True)
    should_shut_down: Bool = field()
