"""Guesses of passwords over the wire: fifty are forgiven an address, then they stand in line."""

import pytest

from moldau.broker.access.failed_logins import FORGIVEN, FailedLogins
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest
from moldau.testing import Broker
from tests.security.secure_wire import Closed, Wire

_LISTENER = "SASL_PLAINTEXT"
_SETTINGS = {
    "listeners": f"{_LISTENER}://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.jaas.config": 'x.PlainLoginModule required user_ann="pencil";',
    "connection.failed.authentication.delay.ms": "1",
}
_TOKEN = SaslAuthenticateRequest(b"")


def _tries(broker: Broker, password: str = "guess") -> Wire:
    """A connection that has sent a login, whose answer is to come."""
    wire = Wire(broker.bootstrap_servers, seconds=20)
    assert wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    wire.send(SaslAuthenticateRequest(f"\0ann\0{password}".encode()), 2)
    return wire


def test_guessing_passwords_does_not_pay() -> None:
    with Broker(_SETTINGS) as broker:
        wires = [_tries(broker) for _ in range(FORGIVEN + 1)]
        for wire in wires:
            assert wire.receive(_TOKEN, 2).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            wire.socket.close()
        before = broker.node.services.logins[_LISTENER, False]
        crowd = [_tries(broker) for _ in range(400)]
        with pytest.raises(Closed):  # the line is longer than twenty seconds
            crowd[-1].receive_frame()
        looked_at = broker.node.services.logins[_LISTENER, False] - before
        assert looked_at < 200
        for wire in crowd:
            wire.socket.close()
        # Whoever knows the password gets in from there too, when the line is done.
        broker.clock.advance(60)
        with _tries(broker, "pencil") as wire:
            assert wire.receive(_TOKEN, 2).error_code == 0


def test_tries_stand_in_line() -> None:
    failed = FailedLogins()
    assert failed.seconds_to_wait("a", 0.0) == 0
    for _ in range(FORGIVEN + 1):
        failed.failed("a", 0.0)
    assert [round(failed.seconds_to_wait("a", 0.0), 3) for _ in range(3)] == [0.1, 0.2, 0.3]
    assert failed.seconds_to_wait("b", 0.0) == 0
    assert failed.seconds_to_wait("a", 1.0) == 0


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moldau.broker.access.failed_logins._REMEMBERED_MOST", 2)
    failed = FailedLogins()
    for host in ("a", "b", "a", "c"):
        failed.failed(host, 0.0)
    assert list(failed._by_host) == ["a", "c"]
