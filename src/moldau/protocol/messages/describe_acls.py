"""DescribeAcls: finds ACLs by a filter.

Null matches everything in a filter. The answer is grouped by resource pattern.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int8, Int16, Int32, String, field, request, response, struct


@request(ApiKey.DESCRIBE_ACLS)
class DescribeAclsRequest:
    resource_type_filter: Int8 = field()
    resource_name_filter: String | None = field()
    pattern_type_filter: Int8 = field(default=3)
    principal_filter: String | None = field()
    host_filter: String | None = field()
    operation: Int8 = field()
    permission_type: Int8 = field()


@struct
class AclDescription:
    principal: String = field()
    host: String = field()
    operation: Int8 = field()
    permission_type: Int8 = field()


@struct
class DescribeAclsResource:
    resource_type: Int8 = field()
    resource_name: String = field()
    pattern_type: Int8 = field(default=3)
    acls: list[AclDescription] = field()


@response(ApiKey.DESCRIBE_ACLS)
class DescribeAclsResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field()
    resources: list[DescribeAclsResource] = field()
