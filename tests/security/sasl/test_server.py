"""The broker's side of SASL, by the answers of a real broker and with our own client on the other side."""

import base64
import random

import pytest

from moldau.security.principals import Identity, Principal
from moldau.security.sasl.client import Credentials, SaslFailed, begin
from moldau.security.sasl.server import (
    AuthenticationFailed,
    IllegalConversation,
    InvalidToken,
    OAuthBearer,
    Plain,
    Scram,
)
from moldau.security.scram import (
    ScramCredential,
    ScramMechanism,
    client_proof,
    credential,
    fake_credential,
    salted_password,
)

_REFUSED = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
)
_KNOWN = credential(ScramMechanism.SHA_256, "pencil", b"0123456789abcdef")
_ANN = Identity(Principal("ann"))


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0ann\0pencil", None),
        (b"ann\0ann\0pencil", None),
        (b"\0ann\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0zoe\0pencil", "Authentication failed: Invalid username or password"),
        (b"\xff\0\xfe\0\xfd", "Authentication failed: Invalid username or password"),
        (b"abc", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"a\0b", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"a\0b\0c\0d", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0pencil", "Authentication failed: username not specified"),
        (b"\0ann\0", "Authentication failed: password not specified"),
        (
            b"bob\0ann\0pencil",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_plain(token: bytes, message: str | None) -> None:
    conversation = Plain({"ann": "pencil"})
    if message is None:
        assert conversation.step(token) == b""
        assert conversation.identity == _ANN
    else:
        with pytest.raises(AuthenticationFailed) as raised:
            conversation.step(token)
        assert str(raised.value) == message
        assert conversation.identity is None


def _look_up(name: str, by_token: bool) -> tuple[ScramCredential, Identity] | None:
    return (_KNOWN, Identity(Principal(name))) if name in ("ann", "a,b=c") and not by_token else None


def _fake(name: str) -> ScramCredential:
    return fake_credential(ScramMechanism.SHA_256, name, b"the broker's")


def scram() -> Scram:
    return Scram(ScramMechanism.SHA_256, _look_up, _fake, "server-nonce")


def _login(user: str, password: str, *, by_token: bool = False) -> Scram:
    conversation = scram()
    credentials = Credentials(user, password, by_delegation_token=by_token)
    client = begin("SCRAM-SHA-256", credentials, "client-nonce")
    last = client.answer(conversation.step(client.first()))
    assert last is not None
    assert client.answer(conversation.step(last)) is None
    return conversation


@pytest.mark.parametrize("user", ["ann", "a,b=c"])
def test_scram_with_our_own_client(user: str) -> None:
    assert _login(user, "pencil").identity == Identity(Principal(user))


@pytest.mark.parametrize(
    ("user", "password", "by_token"),
    [("ann", "wrong", False), ("zoe", "pencil", False), ("ann", "pencil", True)],
)
def test_scram_refuses_a_wrong_password_and_a_user_that_is_not_there_alike(
    user: str, password: str, by_token: bool
) -> None:
    with pytest.raises(AuthenticationFailed) as raised:
        _login(user, password, by_token=by_token)
    assert str(raised.value) == _REFUSED


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"garbage",
        b"p=tls-unique,,n=ann,r=abc",
        b"y,,n=ann,r=abc",
        b"n,,n=ann,r=",
        b"n,,n=,r=abc",
        b"n,,n=a=4Db,r=abc",
        b"n,,r=abc,n=ann",
        b"\xff\xfe",
        b"n,,n=ann,r=ab\x00c",
    ],
)
def test_first_messages_that_are_none(first: bytes) -> None:
    with pytest.raises(AuthenticationFailed) as raised:
        scram().step(first)
    assert str(raised.value) == _REFUSED


@pytest.mark.parametrize("first", [b"n,a=ann,n=ann,r=abc", b"n,,m=x,n=ann,r=abc", b"n,,n=ann,r=abc,foo=bar"])
def test_first_messages_with_more_than_needed(first: bytes) -> None:
    assert scram().step(first).startswith(b"r=abcserver-nonce,s=")


def test_another_authorization_id_is_refused() -> None:
    with pytest.raises(AuthenticationFailed, match="different from username"):
        scram().step(b"n,a=bob,n=ann,r=abc")


def test_changed_last_messages_are_refused() -> None:
    """Every mutant of a good last message, and every part of one alone, is refused."""
    draw = random.Random(7)
    client = begin("SCRAM-SHA-256", Credentials("ann", "pencil"), "client-nonce")
    first = client.first()
    last = client.answer(scram().step(first))
    assert last is not None
    parts = last.split(b",")
    mutants = [b"", b",".join(parts[:2]), b",".join(parts[1:]), b",".join([parts[0], parts[2]])]
    mutants += [
        last.replace(b"server-nonce", b""),
        last.replace(b"server-nonce", b"server-nonc"),
        last + b"A",
    ]
    mutants += [b",".join([parts[2], parts[0], parts[1]]), last.replace(b"c=biws", b"c=eSws")]
    for _ in range(3000):
        changed = bytearray(last)
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        mutants.append(bytes(changed))
    accepted = []
    for mutant in mutants:
        conversation = scram()
        conversation.step(first)
        try:
            conversation.step(mutant)
            accepted.append(mutant)
        except AuthenticationFailed:
            assert conversation.identity is None
    assert accepted == []


@pytest.mark.parametrize(
    ("nonce", "old_clients", "taken"),
    [
        ("client-nonceserver-nonce", False, True),
        ("client-nonceserver-nonce", True, True),
        ("client-nonceclient-nonceserver-nonce", False, False),
        ("client-nonceclient-nonceserver-nonce", True, True),  # as librdkafka up to 2.6.0 writes it
        ("other-nonceclient-nonceserver-nonce", True, False),
        ("client-nonceclient-nonceclient-nonceserver-nonce", True, False),
        ("server-nonce", True, False),
        ("client-nonceserver-nonceserver-nonce", True, False),
    ],
)
def test_the_nonce_of_the_last_message(nonce: str, old_clients: bool, taken: bool) -> None:
    """With a proof that fits what is said: only the nonce decides."""
    conversation = Scram(ScramMechanism.SHA_256, _look_up, _fake, "server-nonce", old_clients=old_clients)
    challenge = conversation.step(b"n,,n=ann,r=client-nonce").decode()
    fields = dict(part.split("=", 1) for part in challenge.split(","))
    salt, rounds = base64.b64decode(fields["s"]), int(fields["i"])
    salted = salted_password("sha256", b"pencil", salt, rounds)
    last = f"c=biws,r={nonce}"
    proof = client_proof("sha256", salted, f"n=ann,r=client-nonce,{challenge},{last}".encode())
    message = f"{last},p={base64.b64encode(proof).decode()}".encode()
    if taken:
        assert conversation.step(message).startswith(b"v=")
        assert conversation.identity is not None
    else:
        with pytest.raises(AuthenticationFailed):
            conversation.step(message)
        assert conversation.identity is None


def test_a_last_message_cannot_be_used_again() -> None:
    client = begin("SCRAM-SHA-256", Credentials("ann", "pencil"), "client-nonce")
    first = client.first()
    last = client.answer(scram().step(first))
    assert last is not None
    later = Scram(ScramMechanism.SHA_256, _look_up, _fake, "another-nonce")
    later.step(first)
    with pytest.raises(AuthenticationFailed):
        later.step(last)


def _accept(token: str) -> Identity:
    if token != "good":
        raise (
            InvalidToken("insufficient_scope", "[kafka]")
            if token == "scope"
            else InvalidToken("invalid_token")
        )
    return Identity(Principal("ann"), 99)


def test_oauthbearer() -> None:
    conversation = OAuthBearer(_accept)
    assert conversation.step(b"n,a=ann,\x01auth=Bearer good\x01traceId=1\x01\x01") == b""
    assert conversation.identity == Identity(Principal("ann"), 99)


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("bad", '{"status":"invalid_token"}'),
        ("scope", '{"status":"insufficient_scope", "scope":"[kafka]"}'),
    ],
)
def test_a_bearer_token_is_refused_in_two_steps(token: str, said: str) -> None:
    conversation = OAuthBearer(_accept)
    assert conversation.step(f"n,,\x01auth=Bearer {token}\x01\x01".encode()) == said.encode()
    with pytest.raises(AuthenticationFailed) as raised:
        conversation.step(b"\x01")
    assert str(raised.value) == said
    with pytest.raises(SaslFailed):
        begin("OAUTHBEARER", Credentials(token=token), "").answer(said.encode())


def test_what_oauthbearer_does_not_read() -> None:
    with pytest.raises(IllegalConversation):
        OAuthBearer(_accept).step(b"n,,\x01auth=Basic good\x01\x01")
    for message in (b"", b"n,,\x01auth=Bearer \x01\x01", b"n,,\x01auth=Bearer good\x01auth=x\x01\x01"):
        with pytest.raises(AuthenticationFailed, match="invalid credentials"):
            OAuthBearer(_accept).step(message)
    with pytest.raises(AuthenticationFailed, match=r"\(bob\).*\(ann\)"):
        OAuthBearer(_accept).step(b"n,a=bob,\x01auth=Bearer good\x01\x01")
