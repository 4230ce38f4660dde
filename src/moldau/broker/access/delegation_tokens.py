"""Delegation tokens at this broker: who may ask for them, how they are found, and the login with one.

Invariant: a token is found by its secret in constant time for each token; a client that logged in with a
token gets no further token and touches none.
"""

import hmac
from functools import lru_cache

from moldau.base.settings import Password
from moldau.broker.context import RequestContext, Services
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.security.delegation_tokens import DelegationToken, token_credential, token_hmac
from moldau.security.principals import ANONYMOUS, Identity
from moldau.security.scram import ScramCredential, ScramMechanism


def secret_key(services: Services) -> str | None:
    """What tokens are made from; None where there are none."""
    value: Password | None = services.settings["delegation.token.secret.key"]
    return None if value is None else value.value


def check_request(context: RequestContext) -> str:
    """The secret key, for a client that may deal with tokens; KafkaError for all others."""
    identity = context.connection.identity
    if identity.principal == ANONYMOUS or identity.by_delegation_token:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    key = secret_key(context.services)
    if key is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return key


def find_token(context: RequestContext, key: str, secret: bytes) -> DelegationToken:
    """The token with this secret, if the client may change it."""
    found = None
    for token in context.services.image.security.tokens.values():
        if hmac.compare_digest(token_hmac(key, token.token_id), secret):
            found = token
    if found is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    if not found.may_be_changed_by(context.principal):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    return found


# Each costs thousands of rounds of hashing, and a token is used by many clients.
_credential = lru_cache(maxsize=1024)(token_credential)


def token_login(
    mechanism: ScramMechanism, token_id: str, services: Services
) -> tuple[ScramCredential, Identity] | None:
    """What a client has to prove that comes with a token, and whom it speaks for then."""
    key, token = secret_key(services), services.image.security.tokens.get(token_id)
    if key is None or token is None:
        return None
    identity = Identity(token.owner, token.expires_at_ms, by_delegation_token=True)
    return _credential(mechanism, key, token_id), identity
