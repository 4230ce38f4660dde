"""SyncGroup: hands out the assignment of a classic group.

The leader sends what everyone shall have, the others send an empty list and wait. The assignment is opaque
to the broker (``consumer_protocol`` reads it).
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bytes, Int16, Int32, String, field, request, response, struct


@struct
class SyncGroupRequestAssignment:
    member_id: String = field()
    assignment: Bytes = field()


@request(ApiKey.SYNC_GROUP)
class SyncGroupRequest:
    group_id: String = field()
    generation_id: Int32 = field()
    member_id: String = field()
    group_instance_id: String | None = field("3+", default=None)
    protocol_type: String | None = field("5+", default=None)
    protocol_name: String | None = field("5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = field()


@response(ApiKey.SYNC_GROUP)
class SyncGroupResponse:
    throttle_time_ms: Int32 = field("1+")
    error_code: Int16 = field()
    protocol_type: String | None = field("5+", default=None)
    protocol_name: String | None = field("5+", default=None)
    assignment: Bytes = field()
