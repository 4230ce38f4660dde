"""The authorization code flow with PKCE, as values: what is sent to the provider and what has to come back.

Invariant: pure. A login that was begun counts once, for ten minutes, in the session that began it; its state,
nonce and verifier are random and known to nobody else. Of what the provider says only the code is believed,
and that only after state and issuer fit.
"""

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlencode

from moldau.console.oidc.settings import OidcSettings

_MINUTES = 10 * 60.0
#: Logins that one browser may have begun, in as many tabs.
_MOST_PENDING = 5
_MOST_CHARACTERS = 2_000


class LoginRefused(Exception):
    """A login that does not count; the text is for the person."""


class PendingLogin(NamedTuple):
    """A login on its way through the provider."""

    state: str
    nonce: str
    verifier: str
    #: The page to show after it.
    target: str
    began: float
    redirect_uri: str


class PendingLogins:
    """The logins that one session has begun."""

    def __init__(self) -> None:
        self._pending: OrderedDict[str, PendingLogin] = OrderedDict()

    def begin(
        self, random_text: Callable[[], str], target: str, redirect_uri: str, now: float
    ) -> PendingLogin:
        made = PendingLogin(random_text(), random_text(), random_text(), target, now, redirect_uri)
        self._pending[made.state] = made
        while len(self._pending) > _MOST_PENDING:
            self._pending.popitem(last=False)
        return made

    def end(self, state: str, now: float) -> PendingLogin:
        """The login that this state belongs to, which is used up by it."""
        found = self._pending.pop(state, None)
        if found is None or now - found.began > _MINUTES:
            raise LoginRefused("The login is too old, or was begun by another page. Begin again.")
        return found


def challenge(verifier: str) -> str:
    """RFC 7636's S256."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def authorization_url(endpoint: str, settings: OidcSettings, pending: PendingLogin) -> str:
    """Where the browser is sent."""
    asked = {
        **dict(settings.parameters),
        "response_type": "code",
        "client_id": settings.client_id,
        "redirect_uri": pending.redirect_uri,
        "scope": settings.scope,
        "state": pending.state,
        "nonce": pending.nonce,
        "code_challenge": challenge(pending.verifier),
        "code_challenge_method": "S256",
    }
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"


def answered_code(answer: Mapping[str, str], issuer: str, *, names_issuer: bool) -> str:
    """The code of the provider's answer. ``names_issuer``: the provider says who it is (RFC 9207)."""
    said = answer.get("iss", "")
    if (said or names_issuer) and said != issuer:
        raise LoginRefused("The answer comes from another provider than the one that was asked.")
    if answer.get("error"):
        detail = answer.get("error_description", "")[:200]
        raise LoginRefused(f"The provider let nobody in: {answer['error'][:100]} {detail}".strip() + ".")
    code = answer.get("code", "")
    if not code or len(code) > _MOST_CHARACTERS:
        raise LoginRefused("The provider sent no code.")
    return code


def token_request(settings: OidcSettings, code: str, pending: PendingLogin) -> dict[str, str]:
    return {
        **dict(settings.parameters),
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": pending.redirect_uri,
        "code_verifier": pending.verifier,
    }


def refresh_request(settings: OidcSettings, refresh_token: str) -> dict[str, str]:
    return {**dict(settings.parameters), "grant_type": "refresh_token", "refresh_token": refresh_token}
