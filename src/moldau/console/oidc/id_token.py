"""Id tokens of OpenID Connect: whom the provider says it let in, and what role they have.

Invariant: pure; it fails closed. A token counts only with a signature of the provider's keys, for this
console, from this issuer, now, for the login that was begun (nonce), and for the access token that came with
it. Someone without a role that counts does not get in where roles are asked for.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, NamedTuple

from moldau.console.oidc.flow import LoginRefused
from moldau.console.oidc.settings import OidcSettings
from moldau.security.bearer_tokens import TokenRules, UnknownKey, check_claims, signed_token
from moldau.security.sasl.server import InvalidToken

_SKEW_SECONDS = 30
_WRONG = "The provider's answer does not prove who you are"
_MOST_CHARACTERS = 200


class Person(NamedTuple):
    name: str
    #: The provider's own name for the person, which never changes.
    subject: str
    #: Whether the person's role only lets them look.
    read_only: bool


def accept_id_token(
    token: str, keys: Any, settings: OidcSettings, *, nonce: str | None, access_token: str, now_ms: int
) -> Person:
    """Who it is. ``nonce`` is None for a token that was refreshed. UnknownKey when its key is not known."""
    try:
        header, claims = signed_token(token, keys)
        # The issuer's subject must be there, whatever people are called by.
        check_claims(claims, _rules(settings, "sub"), now_ms)
        named = check_claims(claims, _rules(settings, settings.user_claim), now_ms)
    except UnknownKey:
        raise
    except InvalidToken:
        raise LoginRefused(f"{_WRONG}: its id token is not valid.") from None
    _check_for_whom(claims, settings.client_id, now_ms)
    if nonce is not None and not _same(claims.get("nonce"), nonce):
        raise LoginRefused(f"{_WRONG}: it belongs to another login.")
    _check_access_token(str(header.get("alg", "")), claims.get("at_hash"), access_token)
    name = named.principal.name
    if len(name) > _MOST_CHARACTERS:
        raise LoginRefused(f"{_WRONG}: the name is too long.")
    return Person(name, str(claims["sub"]), _reads_only(claims, settings))


def _rules(settings: OidcSettings, name_claim: str) -> TokenRules:
    return TokenRules(settings.issuer, (settings.client_id,), _SKEW_SECONDS, name_claim)


def _check_for_whom(claims: Mapping[str, Any], client_id: str, now_ms: int) -> None:
    """A token for several must have been asked for by this console, and none is from tomorrow."""
    audience = claims.get("aud")
    asked_by = claims.get("azp")
    several = isinstance(audience, list) and len(audience) > 1
    if (asked_by is not None or several) and asked_by != client_id:
        raise LoginRefused(f"{_WRONG}: it is for another program.")
    if claims["iat"] * 1000 > now_ms + _SKEW_SECONDS * 1000:
        raise LoginRefused(f"{_WRONG}: it is from the future. Compare the clocks of both machines.")


def _check_access_token(algorithm: str, given: Any, access_token: str) -> None:
    """OpenID Connect Core, 3.1.3.6: half a hash of the access token, by the hash of the signature."""
    if given is None:
        return
    digest = hashlib.new(f"sha{algorithm[2:]}", access_token.encode()).digest()
    expected = base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=").decode()
    if not _same(given, expected):
        raise LoginRefused(f"{_WRONG}: its tokens do not belong together.")


def _same(given: Any, expected: str) -> bool:
    return isinstance(given, str) and hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _reads_only(claims: Mapping[str, Any], settings: OidcSettings) -> bool:
    """Whether the role is one that only looks; LoginRefused for none that counts."""
    if not settings.role_claim:
        return False
    roles = roles_of(claims, settings.role_claim)
    if roles & set(settings.editors):
        return False
    if roles & set(settings.viewers):
        return True
    raise LoginRefused("You have no role that may use this console. Ask whoever gives out roles.")


def roles_of(claims: Mapping[str, Any], claim: str) -> set[str]:
    """A list, or a text with blanks; under its whole name, or with dots into objects."""
    found: Any = claims.get(claim)
    if found is None:
        found = claims
        for part in claim.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    if isinstance(found, str):
        return set(found.split())
    return {each for each in found if isinstance(each, str)} if isinstance(found, list) else set()
