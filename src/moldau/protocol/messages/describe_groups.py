"""DescribeGroups: state and members of classic groups.

Metadata and assignment of a member are opaque bytes. Version 6 adds error messages and answers an unknown
group with GROUP_ID_NOT_FOUND instead of a dead group.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Bytes, Int16, Int32, String, field, request, response, struct


@request(ApiKey.DESCRIBE_GROUPS)
class DescribeGroupsRequest:
    groups: list[String] = field()
    include_authorized_operations: Bool = field("3+")


@struct
class DescribedGroupMember:
    member_id: String = field()
    group_instance_id: String | None = field("4+", default=None)
    client_id: String = field()
    client_host: String = field()
    member_metadata: Bytes = field()
    member_assignment: Bytes = field()


@struct
class DescribedGroup:
    error_code: Int16 = field()
    error_message: String | None = field("6+", default=None)
    group_id: String = field()
    group_state: String = field()
    protocol_type: String = field()
    protocol_data: String = field()
    members: list[DescribedGroupMember] = field()
    authorized_operations: Int32 = field("3+", default=-2147483648)


@response(ApiKey.DESCRIBE_GROUPS)
class DescribeGroupsResponse:
    throttle_time_ms: Int32 = field("1+")
    groups: list[DescribedGroup] = field()
