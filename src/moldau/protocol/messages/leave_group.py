"""LeaveGroup: removes members from a classic group.

Up to version 2 a member takes itself out; from version 3 a list of members is removed, static ones by their
instance id alone.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, String, field, request, response, struct


@struct
class MemberIdentity:
    member_id: String = field()
    group_instance_id: String | None = field(default=None)
    reason: String | None = field("5+", default=None)


@request(ApiKey.LEAVE_GROUP)
class LeaveGroupRequest:
    group_id: String = field()
    member_id: String = field("0-2")
    members: list[MemberIdentity] = field("3+")


@struct
class MemberResponse:
    member_id: String = field()
    group_instance_id: String | None = field()
    error_code: Int16 = field()


@response(ApiKey.LEAVE_GROUP)
class LeaveGroupResponse:
    throttle_time_ms: Int32 = field("1+")
    error_code: Int16 = field()
    members: list[MemberResponse] = field("3+")
