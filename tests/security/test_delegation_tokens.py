"""Delegation tokens as values."""

from moldau.security.delegation_tokens import (
    expired,
    issued,
    renewed,
    token_credential,
    token_hmac,
    token_password,
)
from moldau.security.principals import Principal
from moldau.security.scram import ScramMechanism, client_proof, proves, salted_password

_ANN, _BOB, _EVE = Principal("ann"), Principal("bob"), Principal("eve")


def test_a_token_is_never_renewed_beyond_its_last_moment() -> None:
    token = issued("id", _ANN, _ANN, (_BOB,), 1000, 100, most_ms=500, expiry_ms=50)
    assert (token.expires_at_ms, token.max_at_ms) == (1050, 1100)
    assert renewed(token, 1040, -1, 50).expires_at_ms == 1090
    assert renewed(token, 1090, 10_000, 50).expires_at_ms == 1100
    assert renewed(token, 1040, 5, 50).expires_at_ms == 1045


def test_ends() -> None:
    token = issued("id", _ANN, _ANN, (), 1000, -1, most_ms=500, expiry_ms=50)
    assert expired(token, 1001, 5).expires_at_ms == 1006
    assert expired(token, 1001, 10_000).expires_at_ms == 1500


def test_who_may_touch_it() -> None:
    token = issued("id", _ANN, _BOB, (), 0, -1, most_ms=5, expiry_ms=5)
    assert token.may_be_changed_by(_ANN)
    assert token.may_be_changed_by(_BOB)
    assert not token.may_be_changed_by(_EVE)


def test_its_secret_is_the_password_of_a_login() -> None:
    known = token_credential(ScramMechanism.SHA_256, "key", "id")
    password = token_password("key", "id").encode()
    salted = salted_password("sha256", password, known.salt, known.iterations)
    assert proves(known, client_proof("sha256", salted, b"signed"), b"signed")
    assert token_hmac("key", "id") != token_hmac("other", "id")
