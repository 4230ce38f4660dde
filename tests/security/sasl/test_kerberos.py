"""GSSAPI with a Kerberos that only counts: what is asked when, and what is refused."""

import pytest

from moldau.security.principals import Principal
from moldau.security.sasl.client import SaslFailed
from moldau.security.sasl.kerberos import Gssapi, GssapiClient
from moldau.security.sasl.server import AuthenticationFailed


class _Fake:
    """Takes ``ticket``; with ``mutual`` it has a word of its own. What is wrapped gets brackets."""

    initiator = "ann@HERE"

    def __init__(self, mutual: bool = False) -> None:
        self.complete = False
        self._mutual = mutual

    def step(self, token: bytes) -> bytes:
        if token != b"ticket":
            raise ValueError("no ticket")
        self.complete = True
        return b"proof" if self._mutual else b""

    def wrap(self, message: bytes) -> bytes:
        return b"<" + message + b">"

    def unwrap(self, message: bytes) -> bytes:
        if message[:1] != b"<" or message[-1:] != b">":
            raise ValueError("not wrapped")
        return message[1:-1]


def _name(text: str) -> str:
    name, _, realm = text.partition("@")
    if realm != "HERE":
        raise ValueError("no rule")
    return name


def _begun(mutual: bool = False) -> Gssapi:
    return Gssapi(_Fake(mutual), _name)


_OFFER = b"<\x01\0\0\0>"


def test_a_ticket_and_an_agreement() -> None:
    login = _begun()
    assert login.step(b"ticket") == _OFFER
    assert login.identity is None, "the client has not agreed yet"
    assert login.step(b"<\x01\0\0\0>") == b""
    assert login.identity is not None
    assert login.identity.principal == Principal("ann")


def test_a_client_that_wants_a_proof_of_the_broker() -> None:
    login = _begun(mutual=True)
    assert login.step(b"ticket") == b"proof"
    assert login.step(b"") == _OFFER
    login.step(b"<\x01\0\0\0ann@HERE>")
    assert login.identity is not None


@pytest.mark.parametrize(
    "tokens",
    [
        [b"garbage"],
        [b""],
        [b"ticket", b"\x01\0\0\0"],
        [b"ticket", b"<\x02\0\0\0>"],
        [b"ticket", b"<\x04\0\xff\xff>"],
        [b"ticket", b"<\x01>"],
        [b"ticket", b"<\x01\0\0\0root>"],
        [b"ticket", b"<\x01\0\0\0\xff>"],
        [b"x" * 300_000],
    ],
)
def test_what_is_refused(tokens: list[bytes]) -> None:
    login = _begun()
    for token in tokens[:-1]:
        login.step(token)
    with pytest.raises(AuthenticationFailed, match="invalid credentials with SASL mechanism GSSAPI"):
        login.step(tokens[-1])
    assert login.identity is None


def test_more_than_an_empty_word_after_the_proof_is_refused() -> None:
    login = _begun(mutual=True)
    login.step(b"ticket")
    with pytest.raises(AuthenticationFailed):
        login.step(b"more")


def test_a_name_that_no_rule_fits() -> None:
    context = _Fake()
    context.initiator = "ann@ELSEWHERE"
    login = Gssapi(context, _name)
    login.step(b"ticket")
    with pytest.raises(AuthenticationFailed):
        login.step(b"<\x01\0\0\0>")
    assert login.identity is None


# --- the client's side --------------------------------------------------------------------------------------


class _FakeClient(_Fake):
    """Has a ticket; with ``mutual`` it waits for the broker's proof."""

    def step(self, token: bytes | None) -> bytes:  # type: ignore[override]
        if token is None:
            self.complete = not self._mutual
            return b"ticket"
        if token != b"proof":
            raise ValueError("no proof")
        self.complete = True
        return b""


@pytest.mark.parametrize("mutual", [False, True])
def test_our_client_and_our_broker(mutual: bool) -> None:
    client, login = GssapiClient(_FakeClient(mutual)), _begun(mutual)
    token: bytes | None = client.first()
    while token is not None:
        token = client.answer(login.step(token))
    assert login.identity is not None
    assert login.identity.principal == Principal("ann")


@pytest.mark.parametrize("offer", [b"<\x06\0\0\0>", b"<\x01>", b"none", b"<>"])
def test_a_broker_that_offers_no_way_without_a_layer(offer: bytes) -> None:
    client = GssapiClient(_FakeClient())
    client.first()
    with pytest.raises(SaslFailed, match="Kerberos"):
        client.answer(offer)


def test_a_broker_that_proves_nothing_gets_nothing() -> None:
    client = GssapiClient(_FakeClient(mutual=True))
    client.first()
    with pytest.raises(SaslFailed, match="no proof"):
        client.answer(b"something else")
