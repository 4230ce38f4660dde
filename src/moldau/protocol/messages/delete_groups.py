"""DeleteGroups: deletes groups that have no members.

``groups_names`` is Kafka's spelling.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, String, field, request, response, struct


@request(ApiKey.DELETE_GROUPS)
class DeleteGroupsRequest:
    groups_names: list[String] = field()


@struct
class DeletableGroupResult:
    group_id: String = field()
    error_code: Int16 = field()


@response(ApiKey.DELETE_GROUPS)
class DeleteGroupsResponse:
    throttle_time_ms: Int32 = field()
    results: list[DeletableGroupResult] = field()
