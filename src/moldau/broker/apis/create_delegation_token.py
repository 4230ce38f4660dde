"""CreateDelegationToken.

Behaviour: a token for the client itself, or for another user where the client may make tokens for that one.
"""

from typing import Any

from moldau.base.names import format_uuid
from moldau.broker.access.asks import within
from moldau.broker.access.delegation_tokens import check_request
from moldau.broker.context import RequestContext
from moldau.cluster.controller.security import set_token
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from moldau.security.acls import Operation, ResourceType
from moldau.security.delegation_tokens import issued, token_hmac
from moldau.security.principals import BROKER, USER, Principal

ASKS = (within((Operation.CREATE_TOKENS, ResourceType.USER)),)


async def handle(
    request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    key = check_request(context)
    owner = _owner(request, context)
    if owner != context.principal:
        context.require(Operation.CREATE_TOKENS, ResourceType.USER, str(owner))
    if owner.type == BROKER.type or any(each.principal_type != USER for each in request.renewers):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    services = context.services
    token = issued(
        format_uuid(services.new_uuid()),
        owner,
        context.principal,
        tuple(Principal(each.principal_name, each.principal_type) for each in request.renewers),
        services.clock.now_ms(),
        request.max_lifetime_ms,
        most_ms=services.settings["delegation.token.max.lifetime.ms"],
        expiry_ms=services.settings["delegation.token.expiry.time.ms"],
    )
    await services.metadata.submit(lambda image: set_token(image, token))
    response = _response(owner, context)
    response.issue_timestamp_ms, response.expiry_timestamp_ms = token.issued_at_ms, token.expires_at_ms
    response.max_timestamp_ms, response.token_id = token.max_at_ms, token.token_id
    response.hmac = token_hmac(key, token.token_id)
    return response


def _owner(request: CreateDelegationTokenRequest, context: RequestContext) -> Principal:
    if context.api_version < 3 or not request.owner_principal_name:
        return context.principal
    return Principal(request.owner_principal_name, request.owner_principal_type or USER)


def _response(owner: Principal, context: RequestContext) -> CreateDelegationTokenResponse:
    requester = context.principal
    response = CreateDelegationTokenResponse(principal_type=owner.type, principal_name=owner.name)
    response.token_requester_principal_type = requester.type
    response.token_requester_principal_name = requester.name
    return response


def fail(request: Any, error: KafkaError, context: RequestContext) -> CreateDelegationTokenResponse:
    response = _response(_owner(request, context), context)
    response.error_code = error.code
    response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = -1
    return response
