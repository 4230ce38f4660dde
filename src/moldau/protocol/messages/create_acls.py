"""CreateAcls: adds ACLs.

The results stand in the order of the creations and do not name them.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int8, Int16, Int32, String, field, request, response, struct


@struct
class AclCreation:
    resource_type: Int8 = field()
    resource_name: String = field()
    resource_pattern_type: Int8 = field(default=3)
    principal: String = field()
    host: String = field()
    operation: Int8 = field()
    permission_type: Int8 = field()


@request(ApiKey.CREATE_ACLS)
class CreateAclsRequest:
    creations: list[AclCreation] = field()


@struct
class AclCreationResult:
    error_code: Int16 = field()
    error_message: String | None = field()


@response(ApiKey.CREATE_ACLS)
class CreateAclsResponse:
    throttle_time_ms: Int32 = field()
    results: list[AclCreationResult] = field()
