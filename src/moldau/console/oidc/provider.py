"""Speaks with the OpenID Connect provider: what it is, its keys, and tokens for codes.

Invariant: only https, or http to this very machine; no redirect is followed and every answer has a bound. A
provider that calls itself something else than the issuer that was configured is not believed. No error shows
a secret, a code or a token. What blocks runs in threads.
"""

import asyncio
import base64
import json
import secrets
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from moldau.base.clock import Clock
from moldau.base.http_client import fetch
from moldau.console.oidc.flow import (
    LoginRefused,
    PendingLogin,
    answered_code,
    authorization_url,
    refresh_request,
    token_request,
)
from moldau.console.oidc.id_token import Person, accept_id_token
from moldau.console.oidc.settings import OidcSettings, check_endpoint
from moldau.security.bearer_tokens import UnknownKey, key_set

_TIMEOUT_SECONDS = 10.0
_MOST_BYTES = 1024 * 1024
#: What the provider says of itself is asked for again after so long.
_KEPT_SECONDS = 3600.0
#: Keys that are not known are looked for no more often than this.
_BETWEEN_KEYS_SECONDS = 10.0
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_DEFAULT_TOKEN_SECONDS = 300.0


class ProviderAway(Exception):
    """The provider does not answer as one; the text says what is wrong, for the person and the log."""


@dataclass(slots=True)
class Grant:
    """What the provider gave for a login."""

    person: Person
    access_token: str = field(repr=False)
    #: By the console's clock, in its monotonic seconds.
    ends_at: float
    refresh_token: str = field(default="", repr=False)


class Provider:
    def __init__(self, settings: OidcSettings, clock: Clock) -> None:
        self.settings = settings
        self._clock = clock
        self._metadata: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, Any] | None = None
        self._asking = asyncio.Lock()

    async def login_address(self, pending: PendingLogin) -> str:
        """Where the browser goes to log in."""
        metadata = await self._described()
        return authorization_url(metadata["authorization_endpoint"], self.settings, pending)

    async def logout_address(self, back: str) -> str | None:
        """Where the browser goes to log out of the provider too; None where it offers no such page."""
        found = (await self._described()).get("end_session_endpoint")
        if not isinstance(found, str):
            return None
        _checked(found)
        asked = {"client_id": self.settings.client_id, "post_logout_redirect_uri": back}
        return f"{found}{'&' if '?' in found else '?'}{urlencode(asked)}"

    async def logged_in(self, answer: dict[str, str], pending: PendingLogin) -> Grant:
        """The end of a login: the provider's answer in the browser's address becomes a grant."""
        metadata = await self._described()
        names_issuer = metadata.get("authorization_response_iss_parameter_supported") is True
        code = answered_code(answer, self.settings.issuer, names_issuer=names_issuer)
        said = await self._tokens(metadata, token_request(self.settings, code, pending))
        if not isinstance(said.get("id_token"), str):
            raise LoginRefused("The provider sent no id token.")
        person = await self._person(said["id_token"], pending.nonce, said["access_token"])
        return self._grant(person, said, "")

    async def renewed(self, grant: Grant) -> Grant:
        """A grant for the same person that lasts longer; LoginRefused when the provider does not want to."""
        said = await self._tokens(
            await self._described(), refresh_request(self.settings, grant.refresh_token)
        )
        person = grant.person
        if isinstance(said.get("id_token"), str):
            person = await self._person(said["id_token"], None, said["access_token"])
            if person.subject != grant.person.subject:
                raise LoginRefused("The provider answered for somebody else.")
        return self._grant(person, said, grant.refresh_token)

    def _grant(self, person: Person, said: dict[str, Any], refresh_token: str) -> Grant:
        seconds = said.get("expires_in")
        known = isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < 1e9
        lasts = float(seconds) if known else _DEFAULT_TOKEN_SECONDS  # type: ignore[arg-type]
        newer = said.get("refresh_token")
        kept = newer if isinstance(newer, str) and newer else refresh_token
        return Grant(person, said["access_token"], self._clock.monotonic() + lasts, kept)

    async def _person(self, id_token: str, nonce: str | None, access_token: str) -> Person:
        for may_look_again in (True, False):
            keys = await self._key_set(fresh=not may_look_again)
            try:
                return accept_id_token(
                    id_token,
                    keys,
                    self.settings,
                    nonce=nonce,
                    access_token=access_token,
                    now_ms=self._clock.now_ms(),
                )
            except UnknownKey:
                continue
        raise LoginRefused("The provider's answer is signed with a key that it does not publish.")

    # --- questions ------------------------------------------------------------------------------

    async def _described(self) -> dict[str, Any]:
        async with self._asking:
            now = self._clock.monotonic()
            if self._metadata is None or now - self._metadata[0] > _KEPT_SECONDS:
                said = _json(await asyncio.to_thread(_ask, self.settings.discovery_url))
                if said.get("issuer") != self.settings.issuer:
                    raise ProviderAway("the provider calls itself something else than the issuer here")
                for name in _ENDPOINTS:
                    _checked(said.get(name))
                self._metadata = now, said
            return self._metadata[1]

    async def _key_set(self, *, fresh: bool) -> Any:
        address = (await self._described())["jwks_uri"]
        async with self._asking:
            now = self._clock.monotonic()
            age = None if self._keys is None else now - self._keys[0]
            if age is None or age > _KEPT_SECONDS or (fresh and age > _BETWEEN_KEYS_SECONDS):
                data = await asyncio.to_thread(_ask, address)
                try:
                    self._keys = now, key_set(data)
                except ValueError as error:
                    raise ProviderAway(str(error)) from None
            assert self._keys is not None
            return self._keys[1]

    async def _tokens(self, metadata: dict[str, Any], fields: dict[str, str]) -> dict[str, Any]:
        headers, secret = {}, self.settings.client_secret
        methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        if secret and "client_secret_basic" in methods:
            login = f"{quote(self.settings.client_id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        else:
            fields = {**fields, "client_id": self.settings.client_id}
            fields |= {"client_secret": secret} if secret else {}
        data = await asyncio.to_thread(_ask, metadata["token_endpoint"], urlencode(fields).encode(), headers)
        said = _json(data)
        token = said.get("access_token")
        if not isinstance(token, str) or not token or str(said.get("token_type", "")).lower() != "bearer":
            raise LoginRefused("The provider sent no access token.")
        return said


def random_text() -> str:
    """256 bits, as PKCE wants its verifier."""
    return secrets.token_urlsafe(32)


def _checked(address: Any) -> None:
    try:
        check_endpoint(str(address or ""), "each endpoint of the provider")
    except ValueError as error:
        raise ProviderAway(str(error)) from None


def _ask(address: str, form: bytes | None = None, headers: dict[str, str] | None = None) -> bytes:
    _checked(address)
    request = urllib.request.Request(address, form, {"Accept": "application/json", **(headers or {})})
    host = urlsplit(address).hostname
    try:
        return fetch(request, timeout_seconds=_TIMEOUT_SECONDS, most_bytes=_MOST_BYTES)
    except urllib.error.HTTPError as error:
        if form is not None and error.code in (400, 401, 403):
            raise LoginRefused(f"The provider gave no token: {_reason(error)}.") from None
        raise ProviderAway(f"{host} answered {error.code}") from None
    except (OSError, ValueError) as error:
        raise ProviderAway(f"{host} does not answer: {type(error).__name__}") from None


def _reason(error: urllib.error.HTTPError) -> str:
    """RFC 6749's word for what is wrong, which holds no secret."""
    try:
        said = json.loads(error.read(_MOST_BYTES))
        return str(said["error"])[:100]
    except (OSError, ValueError, KeyError, TypeError):
        return str(error.code)


def _json(data: bytes) -> dict[str, Any]:
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise ProviderAway("the provider did not answer with JSON")
    return said
