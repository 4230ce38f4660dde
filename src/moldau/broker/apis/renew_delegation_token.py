"""RenewDelegationToken.

Behaviour: moves the end of a token, for its owner, its requester or a renewer; never beyond its last moment.
"""

from typing import Any

from moldau.broker.access.asks import NOTHING
from moldau.broker.access.delegation_tokens import check_request, find_token
from moldau.broker.context import RequestContext
from moldau.cluster.controller.security import change_token
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from moldau.security.delegation_tokens import DelegationToken, renewed

ASKS = NOTHING


async def handle(
    request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    found = find_token(context, check_request(context), bytes(request.hmac))
    services = context.services
    now_ms = services.clock.now_ms()
    expiry_ms = services.settings["delegation.token.expiry.time.ms"]

    def renew(token: DelegationToken) -> DelegationToken:
        if now_ms > min(token.max_at_ms, token.expires_at_ms):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        return renewed(token, now_ms, request.renew_period_ms, expiry_ms)

    later = await services.metadata.execute(lambda image: change_token(image, found.token_id, renew))
    return RenewDelegationTokenResponse(expiry_timestamp_ms=later.expires_at_ms)


def fail(request: Any, error: KafkaError, context: RequestContext) -> RenewDelegationTokenResponse:
    refused = error.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1 if refused else 0)
