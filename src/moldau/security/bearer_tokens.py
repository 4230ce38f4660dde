"""Bearer tokens (JWT) of OAUTHBEARER: signature, issuer, audience, times and name.

Invariant: it fails closed. A token counts only with a signature of a known key by an algorithm with public
keys; unsigned ones only where rules say so in so many words. Nothing of a token's header but its key id and
algorithm is looked at: no key and no address in it is ever used.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from moldau.security.principals import Identity, Principal
from moldau.security.sasl.server import InvalidToken

#: With public keys alone: a key that anybody may read must not be taken for a shared secret.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
#: Longer than any token of a provider.
_MOST_CHARACTERS = 64 * 1024


class TokenRules(NamedTuple):
    issuer: str | None = None
    #: One of these, where there are any.
    audiences: tuple[str, ...] = ()
    clock_skew_seconds: int = 30
    name_claim: str = "sub"
    #: Takes tokens without a signature: for trying out, never for anything that matters.
    unsecured: bool = False
    #: All of these must be in the token's own, a text with blanks or a list.
    scopes: tuple[str, ...] = ()
    scope_claim: str = "scope"


class UnknownKey(InvalidToken):
    """A token that names a key that is not there; it may be a new one."""

    def __init__(self) -> None:
        super().__init__("invalid_token")


def key_set(data: bytes) -> Any:
    """The public keys of a provider (JWKS); ValueError for what is none."""
    try:
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet
    except ImportError:
        raise ValueError("signed tokens need the package joserfc: pip install moldau[security]") from None
    try:
        return KeySet.import_key_set(json.loads(data))
    except (JoseError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"this is no set of keys (JWKS): {type(error).__name__}") from None


def accept(token: str, keys: Any, rules: TokenRules, now_ms: int) -> Identity:
    """Whom a token speaks for; ``keys`` is a joserfc ``KeySet``. InvalidToken for one that does not count."""
    if len(token) > _MOST_CHARACTERS:
        raise InvalidToken("invalid_token")
    claims = _unsigned(token) if rules.unsecured else signed_token(token, keys)[1]
    return check_claims(claims, rules, now_ms)


def signed_token(token: str, keys: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Header and claims of a token that one of these keys has signed; nothing else of it is checked."""
    if len(token) > _MOST_CHARACTERS:
        raise InvalidToken("invalid_token")
    from joserfc import jws
    from joserfc.errors import InvalidKeyIdError, JoseError

    try:
        found = jws.deserialize_compact(token, keys, algorithms=list(ALGORITHMS))
    except InvalidKeyIdError:
        raise UnknownKey from None
    except (JoseError, ValueError, TypeError, KeyError):
        raise InvalidToken("invalid_token") from None
    return found.protected, _claims(found.payload)


def _unsigned(token: str) -> Mapping[str, Any]:
    header, dot, rest = token.partition(".")
    payload, second, signature = rest.partition(".")
    if not dot or not second or signature:
        raise InvalidToken("invalid_token")
    if _claims(_decoded(header)).get("alg") != "none":
        raise InvalidToken("invalid_token")
    return _claims(_decoded(payload))


def _decoded(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        raise InvalidToken("invalid_token") from None


def _claims(payload: bytes) -> Mapping[str, Any]:
    try:
        claims = json.loads(payload)
    except (ValueError, RecursionError):
        raise InvalidToken("invalid_token") from None
    if not isinstance(claims, dict):
        raise InvalidToken("invalid_token")
    return claims


def check_claims(claims: Mapping[str, Any], rules: TokenRules, now_ms: int) -> Identity:
    """The identity that claims make, if they hold now."""
    now, skew = now_ms / 1000, rules.clock_skew_seconds
    expires, issued = _time(claims, "exp"), _time(claims, "iat")
    if expires is None or (issued is None and not rules.unsecured):
        raise InvalidToken("invalid_token")
    not_before = _time(claims, "nbf")
    name, issuer = claims.get(rules.name_claim), claims.get("iss")
    audience = claims.get("aud", [])
    audiences = [audience] if isinstance(audience, str) else audience
    holds = (
        now < expires + skew
        and (issued is None or issued < expires)
        and (not_before is None or now >= not_before - skew)
        and isinstance(name, str)
        and name.strip() != ""
        and (rules.issuer is None or issuer == rules.issuer)
        and isinstance(audiences, list)
        and (not rules.audiences or any(each in rules.audiences for each in audiences))
    )
    if not holds:
        raise InvalidToken("invalid_token")
    if not set(rules.scopes) <= _scopes(claims.get(rules.scope_claim)):
        raise InvalidToken("insufficient_scope", " ".join(rules.scopes))
    return Identity(Principal(str(name)), int(expires * 1000))


def _scopes(claim: Any) -> set[str]:
    if isinstance(claim, str):
        return set(claim.split())
    return {each for each in claim if isinstance(each, str)} if isinstance(claim, list) else set()


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        raise InvalidToken("invalid_token")
    return float(value)
