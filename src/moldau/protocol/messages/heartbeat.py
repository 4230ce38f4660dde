"""Heartbeat: keeps a member of a classic group alive.

Errors tell the member what to do: join again on REBALANCE_IN_PROGRESS, start over on UNKNOWN_MEMBER_ID or
ILLEGAL_GENERATION.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, String, field, request, response


@request(ApiKey.HEARTBEAT)
class HeartbeatRequest:
    group_id: String = field()
    generation_id: Int32 = field()
    member_id: String = field()
    group_instance_id: String | None = field("3+", default=None)


@response(ApiKey.HEARTBEAT)
class HeartbeatResponse:
    throttle_time_ms: Int32 = field("1+")
    error_code: Int16 = field()
