"""ExpireDelegationToken.

Behaviour: brings the end of a token nearer; a negative period ends it now.
"""

from typing import Any

from moldau.broker.access.asks import NOTHING
from moldau.broker.access.delegation_tokens import check_request, find_token
from moldau.broker.context import RequestContext
from moldau.cluster.controller.security import remove_token, set_token
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from moldau.security.delegation_tokens import expired

ASKS = NOTHING


async def handle(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    token = find_token(context, check_request(context), bytes(request.hmac))
    metadata, now_ms = context.services.metadata, context.services.clock.now_ms()
    sooner = expired(token, now_ms, request.expiry_time_period_ms)
    if sooner is None:
        await metadata.submit(lambda image: remove_token(image, token.token_id))
        return ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms)
    await metadata.submit(lambda image: set_token(image, sooner))
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=sooner.expires_at_ms)


def fail(request: Any, error: KafkaError, context: RequestContext) -> ExpireDelegationTokenResponse:
    refused = error.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1 if refused else 0)
