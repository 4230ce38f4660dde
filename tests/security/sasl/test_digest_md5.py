"""DIGEST-MD5 as RFC 2831 has it, and servers that are not what they should be."""

import pytest

from moldau.security.sasl.client import SaslFailed
from moldau.security.sasl.digest_md5 import DigestMd5Client

CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'
PROOF = b"rspauth=ea40f60335c427b5527b84dbabcdfffd"


def begun(password: str = "secret", username: str = "chris") -> DigestMd5Client:
    return DigestMd5Client(username, password, "imap/elwood.innosoft.com", "OA6MHXh6VqTrRk")


def test_the_example_of_the_rfc() -> None:
    client = begun()
    assert client.first() == b""
    answer = client.answer(CHALLENGE)
    assert answer is not None
    assert b"response=d388dad90d4bbd760a152321f2143af7" in answer.split(b",")
    assert client.answer(PROOF) is None


@pytest.mark.parametrize("proof", [b"", b"rspauth=" + b"0" * 32, b"other=1"])
def test_a_server_that_does_not_know_the_password(proof: bytes) -> None:
    client = begun()
    client.answer(CHALLENGE)
    with pytest.raises(SaslFailed, match="did not prove"):
        client.answer(proof)


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"nonce",
        b'nonce="x',
        b'nonce="x",algorithm=md5',
        b'realm="r",algorithm=md5-sess',
        b'nonce="x",algorithm=md5-sess,qop="auth-conf,auth-int"',
        b'nonce="' + b"x" * 3000 + b'",algorithm=md5-sess',
    ],
)
def test_challenges_that_are_none(challenge: bytes) -> None:
    with pytest.raises(SaslFailed) as caught:
        begun("c4n4ry").answer(challenge)
    assert "c4n4ry" not in str(caught.value)


def test_names_with_quotes_and_realms_in_numbers() -> None:
    """The first of several realms is taken; quotes and backslashes of a name are escaped."""
    challenge = b'realm="a\\"b",realm="c", nonce="n" , algorithm=md5-sess,stale=false'
    answer = begun(username='a"\\b').answer(challenge)
    assert answer is not None
    assert b'username="a\\"\\\\b",realm="a\\"b",' in answer
