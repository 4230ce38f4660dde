"""The keys that sign bearer tokens: read from a file or fetched from a provider, and fetched again.

Invariant: only https addresses and files, as the broker's own file names them; no address ever comes from a
client or a token. While a provider cannot be reached the keys of before count. A token with a key that is not
known has the keys fetched again, but not more often than every few seconds.
"""

import asyncio
import logging
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from moldau.base.http_client import fetch
from moldau.broker.context import Services
from moldau.cluster.configs.listener_settings import ListenerSettings
from moldau.security.bearer_tokens import TokenRules, UnknownKey, accept, key_set
from moldau.security.principals import Identity
from moldau.security.sasl.server import OAuthBearer

log = logging.getLogger("moldau.broker.authentication")

_MOST_BYTES = 1024 * 1024
_TIMEOUT_SECONDS = 10.0
_BETWEEN_FETCHES_SECONDS = 1.0


class BearerKeys:
    """Begins conversations of OAUTHBEARER for one listener; ValueError for settings that cannot be met."""

    def __init__(self, settings: ListenerSettings, services: Services) -> None:
        self._services = services
        unsecured: bool = settings["moldau.oauthbearer.unsecured.allow"]
        self._url: str = settings["sasl.oauthbearer.jwks.endpoint.url"] or ""
        self._rules = TokenRules(
            settings["sasl.oauthbearer.expected.issuer"],
            tuple(settings["sasl.oauthbearer.expected.audience"] or ()),
            settings["sasl.oauthbearer.clock.skew.seconds"],
            settings["sasl.oauthbearer.sub.claim.name"],
            unsecured,
            tuple(settings["moldau.oauthbearer.required.scopes"] or ()),
            settings["sasl.oauthbearer.scope.claim.name"],
        )
        self._keys: Any = None
        self._fetched_at = float("-inf")
        if unsecured:
            log.warning("tokens without a signature are taken, as moldau.oauthbearer.unsecured.allow says")
            return
        kind = urlsplit(self._url).scheme
        if kind not in ("file", "https"):
            raise ValueError(
                "OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url, an https:// or file:// address of the "
                "keys that sign tokens"
            )
        if kind == "file":
            self._keys = key_set(_read_file(self._url))
        else:
            self._fetch_first()
        services.timers.every(settings["sasl.oauthbearer.jwks.endpoint.refresh.ms"] / 1000, self._fetch_soon)

    def begin(self) -> OAuthBearer:
        return OAuthBearer(self._accept)

    def _accept(self, token: str) -> Identity:
        if self._keys is None and not self._rules.unsecured:
            self._fetch_soon()
            raise UnknownKey
        try:
            return accept(token, self._keys, self._rules, self._services.clock.now_ms())
        except UnknownKey:
            self._fetch_soon()  # this login fails; the next one finds a key that was new
            raise

    def _fetch_first(self) -> None:
        """Before the listener opens, so that the first login finds keys; without them it opens too."""
        try:
            self._keys = key_set(_read_https(self._url))
        except (OSError, ValueError) as error:
            log.error("the keys of bearer tokens cannot be fetched from %s yet: %s", self._url, error)

    def _fetch_soon(self) -> None:
        now = self._services.clock.monotonic()
        if now - self._fetched_at >= _BETWEEN_FETCHES_SECONDS:
            self._fetched_at = now
            self._services.background.start(self._fetch(), "keys of bearer tokens")

    async def _fetch(self) -> None:
        read = _read_file if self._url.startswith("file:") else _read_https
        try:
            data = await asyncio.get_running_loop().run_in_executor(None, read, self._url)
            self._keys = key_set(data)
        except (OSError, ValueError) as error:
            log.error("the keys of bearer tokens cannot be fetched from %s: %s", self._url, error)


def _read_file(url: str) -> bytes:
    try:
        return Path(unquote(urlsplit(url).path)).read_bytes()
    except OSError as error:
        raise ValueError(f"{url} cannot be read: {error.strerror}") from None


def _read_https(url: str) -> bytes:
    return fetch(url, timeout_seconds=_TIMEOUT_SECONDS, most_bytes=_MOST_BYTES)
