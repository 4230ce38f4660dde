"""Fetches a bearer token from a provider of OpenID Connect, by the client credentials grant (RFC 6749, 4.4).

Invariant: only https, or http to this very machine; no redirect is followed, and an answer has a bound. A
token is used until shortly before it ends. No error shows a secret or what the provider said.
"""

import base64
import json
import threading
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from moldau.base.clock import stopwatch
from moldau.base.http_client import fetch
from moldau.security.sasl.client import Credentials, SaslFailed

_TIMEOUT_SECONDS = 10.0
_MOST_BYTES = 256 * 1024
#: A token is fetched again so long before it ends.
_EARLY_SECONDS = 30.0
_LOCAL = ("localhost", "127.0.0.1", "::1")

_known: dict[Credentials, tuple[str, float]] = {}
_lock = threading.Lock()


def fetched_token(credentials: Credentials) -> str:
    """The token for these credentials; it blocks while it asks. SaslFailed when there is none."""
    with _lock:
        token, ends_at = _known.get(credentials, ("", 0.0))
        if not token or stopwatch() >= ends_at - _EARLY_SECONDS:
            token, seconds = _fetch(credentials)
            _known[credentials] = token, stopwatch() + seconds
    return token


def _fetch(credentials: Credentials) -> tuple[str, float]:
    url = urlsplit(credentials.token_url)
    if url.scheme != "https" and not (url.scheme == "http" and url.hostname in _LOCAL):
        raise SaslFailed("sasl.oauthbearer.token.endpoint.url must be an https:// address")
    form = {"grant_type": "client_credentials"} | ({"scope": credentials.scope} if credentials.scope else {})
    login = f"{quote(credentials.username, safe='')}:{quote(credentials.password, safe='')}"
    request = urllib.request.Request(
        credentials.token_url,
        urlencode(form).encode(),
        {
            "Authorization": f"Basic {base64.b64encode(login.encode()).decode()}",
            "Accept": "application/json",
        },
    )
    try:
        said: Any = json.loads(fetch(request, timeout_seconds=_TIMEOUT_SECONDS, most_bytes=_MOST_BYTES))
    except urllib.error.HTTPError as error:
        raise SaslFailed(f"{url.hostname} gave no token: {error.code}") from None
    except (OSError, ValueError) as error:
        raise SaslFailed(f"{url.hostname} gave no token: {type(error).__name__}") from None
    token = said.get("access_token") if isinstance(said, dict) else None
    if not isinstance(token, str) or not token:
        raise SaslFailed(f"{url.hostname} gave no token")
    seconds = said.get("expires_in")
    return token, float(seconds) if isinstance(seconds, int | float) else 0.0
