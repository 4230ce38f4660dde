"""DeleteAcls: deletes the ACLs that filters match.

Null matches everything in a filter. Each result lists what was deleted.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int8, Int16, Int32, String, field, request, response, struct


@struct
class DeleteAclsFilter:
    resource_type_filter: Int8 = field()
    resource_name_filter: String | None = field()
    pattern_type_filter: Int8 = field(default=3)
    principal_filter: String | None = field()
    host_filter: String | None = field()
    operation: Int8 = field()
    permission_type: Int8 = field()


@request(ApiKey.DELETE_ACLS)
class DeleteAclsRequest:
    filters: list[DeleteAclsFilter] = field()


@struct
class DeleteAclsMatchingAcl:
    error_code: Int16 = field()
    error_message: String | None = field()
    resource_type: Int8 = field()
    resource_name: String = field()
    pattern_type: Int8 = field(default=3)
    principal: String = field()
    host: String = field()
    operation: Int8 = field()
    permission_type: Int8 = field()


@struct
class DeleteAclsFilterResult:
    error_code: Int16 = field()
    error_message: String | None = field()
    matching_acls: list[DeleteAclsMatchingAcl] = field()


@response(ApiKey.DELETE_ACLS)
class DeleteAclsResponse:
    throttle_time_ms: Int32 = field()
    filter_results: list[DeleteAclsFilterResult] = field()
