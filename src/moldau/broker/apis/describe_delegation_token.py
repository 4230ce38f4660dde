"""DescribeDelegationToken.

Behaviour: the tokens that the client owns, asked for or may renew, and those that ACLs let it see; by owner
where owners are named.
"""

from typing import Any

from moldau.broker.access.asks import within
from moldau.broker.access.delegation_tokens import check_request
from moldau.broker.context import RequestContext
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from moldau.security.acls import Operation, ResourceType
from moldau.security.delegation_tokens import DelegationToken, token_hmac
from moldau.security.principals import Principal

ASKS = (
    within(
        (Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN), (Operation.DESCRIBE_TOKENS, ResourceType.USER)
    ),
)


def handle(
    request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    key = check_request(context)
    owners = None
    if request.owners is not None:
        owners = {Principal(each.principal_name, each.principal_type) for each in request.owners}
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(token, key)
            for token in context.services.image.security.tokens.values()
            if (owners is None or token.owner in owners) and _visible(token, context)
        ]
    )


def _visible(token: DelegationToken, context: RequestContext) -> bool:
    if token.may_be_changed_by(context.principal):
        return True
    if context.services.authorization is None:
        return False
    return context.may(
        Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id, quiet=True
    ) or context.may(Operation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner), quiet=True)


def _described(token: DelegationToken, key: str) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        token.owner.type,
        token.owner.name,
        token.requester.type,
        token.requester.name,
        token.issued_at_ms,
        token.expires_at_ms,
        token.max_at_ms,
        token.token_id,
        token_hmac(key, token.token_id),
        [DescribedDelegationTokenRenewer(each.type, each.name) for each in token.renewers],
    )


def fail(request: Any, error: KafkaError, context: RequestContext) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=error.code)
