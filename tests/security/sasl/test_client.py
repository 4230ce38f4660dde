"""SASL's exchanges, by the examples of their specifications and against a server's side of them."""

import base64
import hashlib
import hmac

import pytest

from moldau.security.sasl.client import Credentials, SaslFailed, begin

#: RFC 7677, section 3.
_NONCE = "rOprNGfwEbeRWgbNEkqO"
_SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
_CLIENT_LAST = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
_SERVER_LAST = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_scram_by_the_example_of_the_rfc() -> None:
    exchange = begin("SCRAM-SHA-256", Credentials("user", "pencil"), _NONCE)
    assert exchange.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.answer(_SERVER_FIRST) == _CLIENT_LAST
    assert exchange.answer(_SERVER_LAST) is None


@pytest.mark.parametrize(
    ("challenge", "message"),
    [
        (b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "a nonce that is not ours"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "a nonce that is not ours"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1", "asks for 1 iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=99999999", "asks for 99999999 iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==", "asks for no iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=***,i=4096", "'s' is not base64"),
        (b"e=unknown-user", "refused the password: unknown-user"),
        (b"\xff\xfe", "no text"),
        (b"", "a nonce that is not ours"),
    ],
)
def test_a_challenge_that_is_not_answered(challenge: bytes, message: str) -> None:
    exchange = begin("SCRAM-SHA-256", Credentials("user", "pencil"), _NONCE)
    exchange.first()
    with pytest.raises(SaslFailed, match=message):
        exchange.answer(challenge)


def test_a_broker_that_does_not_know_the_password_is_refused() -> None:
    exchange = begin("SCRAM-SHA-256", Credentials("user", "pencil"), _NONCE)
    exchange.first()
    exchange.answer(_SERVER_FIRST)
    with pytest.raises(SaslFailed, match="could not prove"):
        exchange.answer(b"v=" + base64.b64encode(bytes(32)))


def test_scram_512_and_a_name_with_commas() -> None:
    exchange = begin("SCRAM-SHA-512", Credentials("a,b=c", "secret"), "abc")
    first = exchange.first()
    assert first == b"n,,n=a=2Cb=3Dc,r=abc"
    challenge = b"r=abcdef,s=" + base64.b64encode(b"salt") + b",i=4096"
    last = exchange.answer(challenge)
    assert last is not None
    without_proof, _, proof = last.rpartition(b",p=")
    signed = first[3:] + b"," + challenge + b"," + without_proof
    salted = hashlib.pbkdf2_hmac("sha512", b"secret", b"salt", 4096)
    key = hmac.digest(salted, b"Client Key", "sha512")
    signature = hmac.digest(hashlib.sha512(key).digest(), signed, "sha512")
    assert bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True)) == key


def test_mechanisms_of_one_token() -> None:
    plain = begin("PLAIN", Credentials("ada", "secret"), "")
    assert plain.first() == b"\0ada\0secret"
    assert plain.answer(b"") is None
    bearer = begin("OAUTHBEARER", Credentials(token="abc"), "")
    assert bearer.first() == b"n,,\x01auth=Bearer abc\x01\x01"
    with pytest.raises(SaslFailed, match="refused the token"):
        bearer.answer(b'{"status": "invalid_token"}')
    with pytest.raises(SaslFailed, match="GSSAPI is not supported"):
        begin("GSSAPI", Credentials(), "")


def test_secrets_stand_in_no_text() -> None:
    assert "secret" not in repr(Credentials("ada", "secret", "secret"))
