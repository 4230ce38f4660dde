"""ExpireDelegationToken.

Behaviour: brings the end of a token nearer; a negative period ends it now. One that is over stays over.
"""

from typing import Any

from moldau.broker.access.asks import NOTHING
from moldau.broker.access.delegation_tokens import check_request, find_token
from moldau.broker.context import RequestContext
from moldau.cluster.controller.security import change_token, remove_token
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from moldau.security.delegation_tokens import DelegationToken, expired

ASKS = NOTHING


async def handle(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    found = find_token(context, check_request(context), bytes(request.hmac))
    metadata, now_ms = context.services.metadata, context.services.clock.now_ms()
    period_ms = request.expiry_time_period_ms
    if period_ms < 0:
        await metadata.submit(lambda image: remove_token(image, found.token_id))
        return ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms)

    def expire(token: DelegationToken) -> DelegationToken:
        if now_ms > min(token.max_at_ms, token.expires_at_ms):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        return expired(token, now_ms, period_ms)

    changed = await metadata.execute(lambda image: change_token(image, found.token_id, expire))
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=changed.expires_at_ms)


def fail(request: Any, error: KafkaError, context: RequestContext) -> ExpireDelegationTokenResponse:
    refused = error.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1 if refused else 0)
