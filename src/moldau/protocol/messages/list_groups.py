"""ListGroups: the groups that a broker coordinates.

Filters apply where they are not empty: by state from version 4, by type (classic, consumer, share, streams)
from version 5.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, String, field, request, response, struct


@request(ApiKey.LIST_GROUPS)
class ListGroupsRequest:
    states_filter: list[String] = field("4+")
    types_filter: list[String] = field("5+")


@struct
class ListedGroup:
    group_id: String = field()
    protocol_type: String = field()
    group_state: String = field("4+")
    group_type: String = field("5+")


@response(ApiKey.LIST_GROUPS)
class ListGroupsResponse:
    throttle_time_ms: Int32 = field("1+")
    error_code: Int16 = field()
    groups: list[ListedGroup] = field()
