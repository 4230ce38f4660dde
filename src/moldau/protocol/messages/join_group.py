"""JoinGroup: enters a classic group, or begins another round of it.

The answer is held back until the round is complete. Its leader alone receives the members. From version 4 a
new member is first given an id and asked to join again; static members come with version 5.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Bytes, Int16, Int32, String, field, request, response, struct


@struct
class JoinGroupRequestProtocol:
    name: String = field()
    metadata: Bytes = field()


@request(ApiKey.JOIN_GROUP)
class JoinGroupRequest:
    group_id: String = field()
    session_timeout_ms: Int32 = field()
    rebalance_timeout_ms: Int32 = field("1+", default=-1)
    member_id: String = field()
    group_instance_id: String | None = field("5+", default=None)
    protocol_type: String = field()
    protocols: list[JoinGroupRequestProtocol] = field()
    reason: String | None = field("8+", default=None)


@struct
class JoinGroupResponseMember:
    member_id: String = field()
    group_instance_id: String | None = field("5+", default=None)
    metadata: Bytes = field()


@response(ApiKey.JOIN_GROUP)
class JoinGroupResponse:
    throttle_time_ms: Int32 = field("2+")
    error_code: Int16 = field()
    generation_id: Int32 = field(default=-1)
    protocol_type: String | None = field("7+", default=None)
    protocol_name: String | None = field(nullable="7+")
    leader: String = field()
    skip_assignment: Bool = field("9+")
    member_id: String = field()
    members: list[JoinGroupResponseMember] = field()
