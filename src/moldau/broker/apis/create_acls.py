"""CreateAcls.

Behaviour: each ACL has its own result; one that is there already counts as created. An ACL holds for the next
request, on open connections too.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import CloseConnection, RequestContext
from moldau.cluster.controller.security import add_acls
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from moldau.security.acls import Acl, Operation, PatternType, Permission, ResourceType, check

ASKS = (cluster(Operation.ALTER, said="Request CreateAcls needs ALTER permission."),)


async def handle(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    if context.services.authorization is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    response = CreateAclsResponse()
    wanted = []
    for creation in request.creations:
        try:
            wanted.append(_acl(creation))
            response.results.append(AclCreationResult(ErrorCode.NONE, ""))
        except KafkaError as error:
            response.results.append(AclCreationResult(error.code, error.message))
    if wanted:
        await context.services.metadata.submit(lambda image: add_acls(image, wanted))
    return response


def _acl(creation: AclCreation) -> Acl:
    if creation.resource_type not in ResourceType._value2member_map_ or creation.resource_type <= 1:
        raise CloseConnection(f"CreateAcls with the resource type {creation.resource_type}")
    known = (
        creation.operation in Operation._value2member_map_
        and creation.permission_type in Permission._value2member_map_
        and creation.resource_pattern_type in PatternType._value2member_map_
    )
    if not known or creation.operation == Operation.UNKNOWN or creation.permission_type == Permission.UNKNOWN:
        raise CloseConnection("CreateAcls with an operation, permission or pattern that is not known")
    acl = Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )
    if (reason := check(acl)) is not None:
        # Kafka has no better word where a filter's value stands in an ACL.
        internal = reason.startswith(("Invalid pattern", "Invalid operation", "Invalid permission"))
        code = ErrorCode.UNKNOWN_SERVER_ERROR if internal else ErrorCode.INVALID_REQUEST
        raise KafkaError(code, None if internal else reason)
    return acl


def fail(request: Any, error: KafkaError, context: RequestContext) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(error.code, error.message) for _ in request.creations]
    )
