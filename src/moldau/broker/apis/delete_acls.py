"""DeleteAcls.

Behaviour: removes what each filter matches and says what that was; an ACL that two filters match is removed,
and named, once for each.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.cluster.controller.security import remove_acls
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from moldau.security.acls import AclFilter, Operation

ASKS = (cluster(Operation.ALTER, said="Request DeleteAcls needs ALTER permission."),)


async def handle(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    if context.services.authorization is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    filters = [
        AclFilter(
            each.resource_type_filter,
            each.resource_name_filter,
            each.pattern_type_filter,
            each.principal_filter,
            each.host_filter,
            each.operation,
            each.permission_type,
        )
        for each in request.filters
    ]
    removed = await context.services.metadata.execute(lambda image: remove_acls(image, filters))
    response = DeleteAclsResponse()
    for acls in removed:
        matching = [
            DeleteAclsMatchingAcl(
                ErrorCode.NONE,
                None,
                acl.resource_type,
                acl.resource_name,
                acl.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission,
            )
            for acl in acls
        ]
        response.filter_results.append(DeleteAclsFilterResult(ErrorCode.NONE, None, matching))
    return response


def fail(request: Any, error: KafkaError, context: RequestContext) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error.code, error.message) for _ in request.filters]
    )
