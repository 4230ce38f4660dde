"""Delegation tokens (KIP-48): short-lived credentials that a logged-in client takes for others to use.

Invariant: a token's secret is computed from its id and the cluster's secret key, and never stored. Nobody
renews a token beyond its last moment, and only its owner, its requester and its renewers touch it.
"""

import base64
import hmac
from typing import NamedTuple

from moldau.security.principals import Principal
from moldau.security.scram import LEAST_ITERATIONS, ScramCredential, ScramMechanism, credential


class DelegationToken(NamedTuple):
    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_at_ms: int
    expires_at_ms: int
    max_at_ms: int

    def may_be_changed_by(self, principal: Principal) -> bool:
        return principal in (self.owner, self.requester) or principal in self.renewers


def token_hmac(secret_key: str, token_id: str) -> bytes:
    """The token's secret."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


def token_password(secret_key: str, token_id: str) -> str:
    """The secret as a password, which is how a client logs in with it."""
    return base64.b64encode(token_hmac(secret_key, token_id)).decode()


def token_credential(mechanism: ScramMechanism, secret_key: str, token_id: str) -> ScramCredential:
    salt = hmac.digest(secret_key.encode(), f"salt of {token_id}".encode(), "sha256")[:16]
    return credential(mechanism, token_password(secret_key, token_id), salt, LEAST_ITERATIONS)


def issued(
    token_id: str,
    owner: Principal,
    requester: Principal,
    renewers: tuple[Principal, ...],
    now_ms: int,
    lifetime_ms: int,
    *,
    most_ms: int,
    expiry_ms: int,
) -> DelegationToken:
    """A new token: for as long as was asked, at most ``most_ms``, to be renewed every ``expiry_ms``."""
    max_at_ms = now_ms + (min(lifetime_ms, most_ms) if lifetime_ms > 0 else most_ms)
    expires_at_ms = min(max_at_ms, now_ms + expiry_ms)
    return DelegationToken(token_id, owner, requester, renewers, now_ms, expires_at_ms, max_at_ms)


def renewed(token: DelegationToken, now_ms: int, period_ms: int, expiry_ms: int) -> DelegationToken:
    """The token with a later end, for ``period_ms`` or as the broker has it."""
    period = min(period_ms, expiry_ms) if period_ms > 0 else expiry_ms
    return token._replace(expires_at_ms=min(token.max_at_ms, now_ms + period))


def expired(token: DelegationToken, now_ms: int, period_ms: int) -> DelegationToken:
    """The token with another end."""
    return token._replace(expires_at_ms=min(token.max_at_ms, now_ms + period_ms))
