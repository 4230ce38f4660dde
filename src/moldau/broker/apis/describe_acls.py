"""DescribeAcls.

Behaviour: the ACLs that a filter matches, by resource.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from moldau.security.acls import AclFilter, Operation

ASKS = (cluster(Operation.DESCRIBE, said="Request DescribeAcls needs DESCRIBE permission."),)


def handle(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    if context.services.authorization is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in context.services.image.security.acls:
        if wanted.matches(acl):
            pattern = acl[:3]
            resource = resources.setdefault(pattern, DescribeAclsResource(*pattern))
            resource.acls.append(AclDescription(acl.principal, acl.host, acl.operation, acl.permission))
    return DescribeAclsResponse(error_message="", resources=list(resources.values()))


def fail(request: Any, error: KafkaError, context: RequestContext) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=error.code, error_message=error.message)
