"""Id tokens: the one that counts, and forged, expired, borrowed and confused ones."""

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import ECKey, KeySet, RSAKey

from moldau.console.oidc.flow import LoginRefused
from moldau.console.oidc.id_token import Person, accept_id_token, roles_of
from moldau.console.oidc.settings import OidcSettings
from moldau.security.bearer_tokens import ALGORITHMS, UnknownKey

_NOW = 1_800_000_000
_KEY = RSAKey.generate_key(2048, {"kid": "k1"})
_CURVE = ECKey.generate_key("P-384", {"kid": "k2"})
_STRANGER = RSAKey.generate_key(2048, {"kid": "k1"})
_KEYS = KeySet.import_key_set(KeySet([_KEY, _CURVE]).as_dict(private=False))
_SETTINGS = OidcSettings("https://login.example", "console", user_claim="email")
_CLAIMS: dict[str, Any] = {
    "iss": "https://login.example",
    "aud": "console",
    "sub": "4711",
    "email": "ann@example.com",
    "nonce": "of this login",
    "iat": _NOW - 5,
    "exp": _NOW + 300,
}


def token(key: Any = _KEY, header: dict[str, Any] | None = None, **claims: Any) -> str:
    wanted = {name: value for name, value in {**_CLAIMS, **claims}.items() if value is not None}
    head = {"alg": "RS256", "kid": "k1", **(header or {})}
    return jws.serialize_compact(head, json.dumps(wanted).encode(), key, algorithms=list(ALGORITHMS))


def taken(text: str, settings: OidcSettings = _SETTINGS, nonce: str | None = "of this login") -> Person:
    return accept_id_token(text, _KEYS, settings, nonce=nonce, access_token="access", now_ms=_NOW * 1000)


def half_hash(text: str, name: str) -> str:
    digest = hashlib.new(name, text.encode()).digest()
    return base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "text",
    [
        token(),
        token(aud=["console"]),
        token(aud=["console", "other"], azp="console"),
        token(azp="console"),
        token(at_hash=half_hash("access", "sha256")),
        token(_CURVE, {"alg": "ES384", "kid": "k2"}, at_hash=half_hash("access", "sha384")),
        token(iat=_NOW - 100, exp=_NOW - 10),  # clocks differ
        token(iat=_NOW + 10),
    ],
)
def test_one_that_counts(text: str) -> None:
    assert taken(text) == Person("ann@example.com", "4711", False)


def unsigned() -> str:
    parts = [{"alg": "none"}, _CLAIMS]
    encoded = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in parts]
    return ".".join([*encoded, ""])


def by_the_public_key_as_a_secret() -> str:
    """By hand: the library refuses to make it."""
    head, claims, _ = token().split(".")
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"k1"}').rstrip(b"=").decode()
    made = hmac.digest(_KEY.as_pem(private=False), f"{head}.{claims}".encode(), "sha256")
    return f"{head}.{claims}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}"


def changed_after_signing() -> str:
    head, _, signature = token().split(".")
    other = json.dumps({**_CLAIMS, "email": "admin@example.com"}).encode()
    return ".".join([head, base64.urlsafe_b64encode(other).rstrip(b"=").decode(), signature])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(token(_STRANGER), id="another key of the same name"),
        pytest.param(token(_STRANGER, {"jwk": _STRANGER.as_dict(private=False)}), id="brings its own key"),
        pytest.param(unsigned(), id="no signature"),
        pytest.param(by_the_public_key_as_a_secret(), id="public key as a secret"),
        pytest.param(changed_after_signing(), id="changed"),
        pytest.param(token(iat=_NOW - 100, exp=_NOW - 31), id="expired"),
        pytest.param(token(exp=None), id="never expires"),
        pytest.param(token(iat=None), id="never issued"),
        pytest.param(token(iat=_NOW + 200), id="from the future"),
        pytest.param(token(nbf=_NOW + 100), id="not yet"),
        pytest.param(token(iss="https://another.example"), id="another issuer"),
        pytest.param(token(iss=None), id="no issuer"),
        pytest.param(token(aud="other"), id="another audience"),
        pytest.param(token(aud=None), id="no audience"),
        pytest.param(token(aud=["console", "other"]), id="several audiences and nobody asked"),
        pytest.param(token(azp="other"), id="asked for by another"),
        pytest.param(token(aud=["console", "other"], azp="other"), id="for us, asked for by another"),
        pytest.param(token(nonce="of another login"), id="another nonce"),
        pytest.param(token(nonce=None), id="no nonce"),
        pytest.param(token(nonce=7), id="nonce is no text"),
        pytest.param(token(at_hash=half_hash("another", "sha256")), id="another access token"),
        pytest.param(token(at_hash=9), id="hash is no text"),
        pytest.param(token(sub=None), id="no subject"),
        pytest.param(token(email=None), id="no name"),
        pytest.param(token(email=["ann"]), id="name is no text"),
        pytest.param(token(email="a" * 300), id="name without end"),
        pytest.param("", id="nothing"),
        pytest.param("a.b.c", id="noise"),
        pytest.param("x" * 70_000, id="too long"),
    ],
)
def test_one_that_does_not(text: str) -> None:
    with pytest.raises(LoginRefused):
        taken(text)


def test_a_key_that_is_new_is_looked_for() -> None:
    with pytest.raises(UnknownKey):
        taken(token(RSAKey.generate_key(2048, {"kid": "k9"}), {"kid": "k9"}))


def test_a_refreshed_one_has_no_nonce() -> None:
    assert taken(token(nonce=None), nonce=None).subject == "4711"


_WITH_ROLES = replace(_SETTINGS, role_claim="realm_access.roles", viewers=("viewer",), editors=("editor",))


@pytest.mark.parametrize(
    ("roles", "read_only"),
    [(["viewer"], True), (["editor"], False), (["viewer", "editor"], False), ("x editor", False)],
)
def test_roles(roles: Any, read_only: bool) -> None:
    assert taken(token(realm_access={"roles": roles}), _WITH_ROLES).read_only is read_only


@pytest.mark.parametrize(
    "claims", [{}, {"realm_access": {"roles": ["other", 7]}}, {"realm_access": "editor"}]
)
def test_nobody_gets_in_without_a_role(claims: dict[str, Any]) -> None:
    with pytest.raises(LoginRefused, match="no role"):
        taken(token(**claims), _WITH_ROLES)


def test_a_claim_with_dots_in_its_name() -> None:
    assert roles_of({"https://x.example/roles": ["a"]}, "https://x.example/roles") == {"a"}
    assert roles_of({"a": {"b": ["c"]}}, "a.b") == {"c"}
    assert roles_of({"a": 1}, "a.b.c") == set()
