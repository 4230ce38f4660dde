"""Delegation tokens over the wire: made, renewed, used for a login, and ended; as a real broker answers."""

import base64
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from moldau.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from moldau.protocol.messages.describe_cluster import DescribeClusterRequest
from moldau.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from moldau.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from moldau.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest
from moldau.security.sasl.client import Credentials, begin
from moldau.testing import Broker
from tests.security.secure_wire import Closed, Wire

_SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.jaas.config": 'x.PlainLoginModule required user_alice="s" user_bob="s" user_carol="s";',
    "delegation.token.secret.key": "the cluster's own",
    "connection.failed.authentication.delay.ms": "1",
}
_DAY_MS = 86_400_000


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(_SETTINGS) as broker:
        yield broker


def login(broker: Broker, user: str) -> Wire:
    return Wire(broker.bootstrap_servers).log_in(user, "s")


def create(wire: Wire, lifetime_ms: int = -1, *renewers: str, kind: str = "User") -> Any:
    asked = CreateDelegationTokenRequest("", "", [CreatableRenewers(kind, each) for each in renewers])
    asked.max_lifetime_ms = lifetime_ms
    return wire.ask(asked)


def token_login(broker: Broker, token_id: str, hmac: bytes, mechanism: str = "SCRAM-SHA-256") -> Any:
    """The connection and the last answer."""
    wire = Wire(broker.bootstrap_servers)
    assert wire.ask(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
    credentials = Credentials(token_id, base64.b64encode(hmac).decode(), by_delegation_token=True)
    exchange = begin(mechanism, credentials, secrets.token_urlsafe(8))
    answer = wire.ask(SaslAuthenticateRequest(auth_bytes=exchange.first()), 2)
    last = exchange.answer(bytes(answer.auth_bytes))
    assert last is not None
    return wire, wire.ask(SaslAuthenticateRequest(auth_bytes=last), 2)


@pytest.mark.parametrize(
    ("lifetime_ms", "expiry_ms", "max_ms"),
    [
        (-1, _DAY_MS, 7 * _DAY_MS),
        (0, _DAY_MS, 7 * _DAY_MS),
        (60_000, 60_000, 60_000),
        (30 * _DAY_MS, _DAY_MS, 7 * _DAY_MS),
    ],
)
def test_how_long_a_token_lives(broker: Broker, lifetime_ms: int, expiry_ms: int, max_ms: int) -> None:
    with login(broker, "alice") as wire:
        made = create(wire, lifetime_ms)
    assert (made.error_code, made.principal_name, len(made.hmac)) == (0, "alice", 64)
    assert made.expiry_timestamp_ms - made.issue_timestamp_ms == expiry_ms
    assert made.max_timestamp_ms - made.issue_timestamp_ms == max_ms


def test_who_renews_and_ends_a_token(broker: Broker) -> None:
    with login(broker, "alice") as alice, login(broker, "bob") as bob, login(broker, "carol") as carol:
        made = create(alice, -1, "bob")
        assert create(alice, -1, "bob", kind="Group").error_code == 67
        hmac = bytes(made.hmac)
        renewed = bob.ask(RenewDelegationTokenRequest(hmac, 3_600_000))
        assert renewed.error_code == 0
        assert renewed.expiry_timestamp_ms < made.expiry_timestamp_ms
        assert carol.ask(RenewDelegationTokenRequest(hmac, -1)).error_code == 63
        assert carol.ask(ExpireDelegationTokenRequest(hmac, -1)).error_code == 63
        assert alice.ask(RenewDelegationTokenRequest(b"unknown", -1)).error_code == 62
        (seen,) = bob.ask(DescribeDelegationTokenRequest(None)).tokens
        assert (seen.token_id, bytes(seen.hmac)) == (made.token_id, hmac)
        owners = [DescribeDelegationTokenOwner("User", "carol")]
        assert bob.ask(DescribeDelegationTokenRequest(owners)).tokens == []
        assert carol.ask(DescribeDelegationTokenRequest(None)).tokens == []
        assert bob.ask(ExpireDelegationTokenRequest(hmac, 1500)).error_code == 0
        broker.clock.advance(2)
        assert bob.ask(RenewDelegationTokenRequest(hmac, -1)).error_code == 66
        assert bob.ask(ExpireDelegationTokenRequest(hmac, _DAY_MS)).error_code == 66
        assert bob.ask(ExpireDelegationTokenRequest(hmac, -1)).error_code == 0
        assert bob.ask(ExpireDelegationTokenRequest(hmac, -1)).error_code == 62


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login_with_a_token(broker: Broker, mechanism: str) -> None:
    with login(broker, "alice") as alice:
        made = create(alice)
        wire, answer = token_login(broker, made.token_id, bytes(made.hmac), mechanism)
        assert answer.error_code == 0
        assert answer.session_lifetime_ms == pytest.approx(_DAY_MS, abs=60_000)
        with wire:
            refused = create(wire)
            assert (refused.error_code, refused.principal_name) == (64, "alice")
            assert refused.issue_timestamp_ms == -1
            assert wire.ask(DescribeDelegationTokenRequest(None)).error_code == 64
            assert wire.ask(RenewDelegationTokenRequest(bytes(made.hmac), 1)).error_code == 64
        assert token_login(broker, made.token_id, b"x" * 64, mechanism)[1].error_code == 58
        assert token_login(broker, "nobody", bytes(made.hmac), mechanism)[1].error_code == 58
        alice.ask(ExpireDelegationTokenRequest(bytes(made.hmac), -1))
        assert token_login(broker, made.token_id, bytes(made.hmac), mechanism)[1].error_code == 58


def test_a_session_ends_with_its_token(broker: Broker) -> None:
    with login(broker, "alice") as alice:
        made = create(alice, 60_000)
    wire, answer = token_login(broker, made.token_id, bytes(made.hmac))
    with wire:
        assert 0 < answer.session_lifetime_ms <= 60_000
        assert wire.ask(DescribeClusterRequest()).error_code == 0
        broker.clock.advance(61)
        wire.send(DescribeClusterRequest(), 2)
        with pytest.raises(Closed):
            wire.receive_frame()


def test_nobody_gets_a_token_without_a_login(broker: Broker) -> None:
    host, port = broker.node.address("PLAINTEXT")
    with Wire(f"{host}:{port}") as wire:
        refused = create(wire)
    assert (refused.error_code, refused.principal_name) == (64, "ANONYMOUS")
