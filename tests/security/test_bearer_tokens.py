"""Bearer tokens: what a real broker takes and refuses, and forgeries of every kind."""

import base64
import contextlib
import json
import random
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import KeySet, OctKey, RSAKey

from moldau.security.bearer_tokens import ALGORITHMS, TokenRules, accept, check_claims
from moldau.security.principals import Identity, Principal
from moldau.security.sasl.server import InvalidToken

_NOW = 1_800_000_000
_KEY = RSAKey.generate_key(2048, {"kid": "k1"})
_OTHER = RSAKey.generate_key(2048, {"kid": "k1"})
_KEYS = KeySet.import_key_set(KeySet([_KEY]).as_dict(private=False))
_RULES = TokenRules("https://issuer", ("kafka", "other"))
_CLAIMS = {"sub": "ann", "iss": "https://issuer", "aud": "kafka", "iat": _NOW - 10, "exp": _NOW + 300}


def token(key: Any = _KEY, header: dict[str, Any] | None = None, **claims: Any) -> str:
    wanted = {name: value for name, value in {**_CLAIMS, **claims}.items() if value is not None}
    head = {"alg": "RS256", "kid": "k1", **(header or {})}
    head = {name: value for name, value in head.items() if value is not None}
    return jws.serialize_compact(head, json.dumps(wanted).encode(), key, algorithms=[*ALGORITHMS, "HS256"])


def taken(text: str, rules: TokenRules = _RULES) -> Identity:
    return accept(text, _KEYS, rules, _NOW * 1000)


@pytest.mark.parametrize(
    "text",
    [
        token(),
        token(aud=["x", "other"]),
        token(header={"kid": None}),
        token(header={"alg": "RS512"}),
        token(header={"typ": "at+jwt"}),
        token(exp=_NOW - 10, iat=_NOW - 99),  # within the skew
        token(nbf=_NOW + 10),
    ],
)
def test_tokens_that_are_taken(text: str) -> None:
    assert taken(text).principal == Principal("ann")


def test_a_session_ends_with_its_token() -> None:
    assert taken(token()).expires_at_ms == (_NOW + 300) * 1000


@pytest.mark.parametrize(
    "text",
    [
        token(aud="x"),
        token(aud=None),
        token(iss="https://other"),
        token(iss=None),
        token(exp=_NOW - 60),
        token(exp=None),
        token(iat=None),
        token(nbf=_NOW + 600),
        token(sub=None),
        token(sub=""),
        token(sub=7),
        token(exp=_NOW + 1, iat=_NOW + 9),
        token(exp="soon"),
        token(exp=True),
        token(_OTHER),
        token(header={"kid": "unknown"}),
        "",
        "x.y.z",
        "not a token",
        token()[:-4] + "AAAA",
    ],
)
def test_tokens_that_are_refused(text: str) -> None:
    with pytest.raises(InvalidToken) as raised:
        taken(text)
    assert raised.value.as_json() == '{"status":"invalid_token"}'


def _part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def test_unsigned_tokens_and_shared_secrets_are_refused() -> None:
    public = json.dumps(_KEYS.as_dict(private=False)["keys"][0]).encode()
    forgeries = [
        f"{_part({'alg': 'none'})}.{_part(_CLAIMS)}.",
        f"{_part({'alg': 'None', 'kid': 'k1'})}.{_part(_CLAIMS)}.",
        token(OctKey.import_key(public), {"alg": "HS256"}),
    ]
    for text in forgeries:
        with pytest.raises(InvalidToken):
            taken(text)


def test_mutants_of_a_good_token_are_refused() -> None:
    draw, good = random.Random(5), token()
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
    accepted = []
    for _ in range(1000):
        place = draw.randrange(len(good) - 1)  # the last letter has bits that no byte has
        mutant = good[:place] + draw.choice(letters.replace(good[place], "")) + good[place + 1 :]
        with contextlib.suppress(InvalidToken):
            accepted.append((mutant, taken(mutant)))
    assert accepted == []


def test_unsigned_tokens_where_rules_say_so() -> None:
    rules = TokenRules(unsecured=True)
    assert taken(f"{_part({'alg': 'none'})}.{_part(_CLAIMS)}.", rules).principal == Principal("ann")
    for text in (token(), f"{_part({'alg': 'none'})}.{_part({'sub': 'ann'})}."):
        with pytest.raises(InvalidToken):
            taken(text, rules)


@pytest.mark.parametrize(
    ("claim", "taken"),
    [
        ("orders:read orders:write", True),
        (["orders:write", "orders:read"], True),
        ("orders:read", False),
        ("orders:readers orders:write", False),
        (None, False),
        (7, False),
    ],
)
def test_a_token_needs_every_scope_that_is_asked_for(claim: Any, taken: bool) -> None:
    rules = TokenRules(unsecured=True, scopes=("orders:read", "orders:write"), scope_claim="scp")
    claims = {"sub": "ann", "exp": 2_000, "scp": claim}
    if taken:
        assert check_claims(claims, rules, 1_000_000).principal.name == "ann"
        return
    with pytest.raises(InvalidToken) as caught:
        check_claims(claims, rules, 1_000_000)
    assert caught.value.as_json() == '{"status":"insufficient_scope", "scope":"orders:read orders:write"}'
