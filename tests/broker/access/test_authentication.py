"""Logins over the wire, as a real broker answers them, and with real clients."""

import struct
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from moldau.broker.apis import TABLE
from moldau.protocol import messages
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.describe_cluster import DescribeClusterRequest
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest
from moldau.security.scram import salted_password
from moldau.testing import Broker
from tests.security.secure_wire import Closed, Wire, framed

_JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="pencil" user_bob="pen";'
_SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": _JAAS,
    "connection.failed.authentication.delay.ms": "1",
}
_GOOD = b"\0ann\0pencil"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(_SETTINGS) as broker:
        yield broker


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as wire:
        yield wire


def handshake(wire: Wire, mechanism: str = "PLAIN", version: int = 1) -> object:
    return wire.ask(SaslHandshakeRequest(mechanism=mechanism), version).error_code


def authenticate(wire: Wire, token: bytes = _GOOD, version: int = 2) -> object:
    answer = wire.ask(SaslAuthenticateRequest(auth_bytes=token), version)
    return answer.error_code, answer.error_message, answer.auth_bytes, answer.session_lifetime_ms


def assert_closed(wire: Wire) -> None:
    with pytest.raises(Closed):
        wire.receive_frame()


@pytest.mark.parametrize("version", [0, 1, 2])
def test_plain(wire: Wire, version: int) -> None:
    assert handshake(wire) == 0
    assert authenticate(wire, version=version) == (0, "", b"", 0)
    assert wire.ask(DescribeClusterRequest()).error_code == 0


def test_a_wrong_password_is_answered_and_ends_the_connection(wire: Wire) -> None:
    assert handshake(wire) == 0
    code, message, _, _ = authenticate(wire, b"\0ann\0wrong")  # type: ignore[misc]
    assert (code, message) == (58, "Authentication failed: Invalid username or password")
    assert_closed(wire)


def test_bare_tokens_after_the_first_version_of_the_handshake(wire: Wire) -> None:
    assert handshake(wire, version=0) == 0
    wire.socket.sendall(struct.pack(">i", len(_GOOD)) + _GOOD)
    assert wire.receive_frame() == b""
    assert wire.ask(DescribeClusterRequest()).error_code == 0


def test_a_bare_token_that_is_wrong_gets_no_answer(wire: Wire) -> None:
    assert handshake(wire, version=0) == 0
    wire.socket.sendall(struct.pack(">i", 10) + b"\0ann\0wrong")
    assert_closed(wire)


@pytest.mark.parametrize("mechanism", ["FOO", "", "plain", "GSSAPI", "OAUTHBEARER"])
def test_a_mechanism_that_is_not_offered(wire: Wire, mechanism: str) -> None:
    answer = wire.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert_closed(wire)


@pytest.mark.parametrize(
    "api_key", [key for key in TABLE if key not in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE)]
)
def test_nothing_else_is_answered_before_a_login(broker: Broker, api_key: ApiKey) -> None:
    """In every version, and in those that there are not."""
    request, _ = messages.load(api_key)
    for version in range(TABLE[api_key].minimum, TABLE[api_key].maximum + 1):
        with Wire(broker.bootstrap_servers) as wire:
            wire.send(request(), version)
            assert_closed(wire)
    with Wire(broker.bootstrap_servers) as wire:
        wire.socket.sendall(struct.pack(">ihhih", 10, api_key, 99, 7, -1))
        assert_closed(wire)


def test_versions_are_told_once(wire: Wire) -> None:
    request = ApiVersionsRequest("probe", "1")
    assert wire.ask(request, 3).error_code == 0
    wire.send(request, 3)
    assert_closed(wire)


def test_versions_that_are_too_new_or_badly_asked_for_do_not_end_a_login(wire: Wire) -> None:
    wire.socket.sendall(struct.pack(">ihhih", 10, 18, 99, 7, -1))
    assert wire.receive_frame()[4:6] == b"\x00\x23"
    assert wire.ask(ApiVersionsRequest("", ""), 3).error_code == ErrorCode.INVALID_REQUEST
    assert handshake(wire) == 0


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">i", 104857601),
        struct.pack(">i", 600000),
        bytes(4),
        b"\xff" * 4,
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_frames_that_are_none(wire: Wire, frame: bytes) -> None:
    wire.socket.sendall(frame)
    assert_closed(wire)


def test_other_requests_between_handshake_and_login(broker: Broker) -> None:
    for request, version in ((ApiVersionsRequest("probe", "1"), 3), (DescribeClusterRequest(), 2)):
        with Wire(broker.bootstrap_servers) as wire:
            assert handshake(wire) == 0
            assert wire.ask(request, version).error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert_closed(wire)
    with Wire(broker.bootstrap_servers) as wire:
        assert handshake(wire) == 0
        assert handshake(wire) == ErrorCode.ILLEGAL_SASL_STATE
        assert_closed(wire)


def test_after_a_login_there_is_no_other(wire: Wire) -> None:
    wire.log_in("ann", "pencil")
    assert handshake(wire) == ErrorCode.ILLEGAL_SASL_STATE
    code, message, _, _ = authenticate(wire)  # type: ignore[misc]
    assert code == ErrorCode.ILLEGAL_SASL_STATE
    assert message == "SaslAuthenticate request received after successful authentication"


def test_a_request_in_the_same_write_as_the_login(wire: Wire) -> None:
    assert handshake(wire) == 0
    token, request = SaslAuthenticateRequest(auth_bytes=_GOOD), DescribeClusterRequest()
    wire.socket.sendall(framed(token, 2) + framed(request, 2))
    assert wire.receive(token, 2).error_code == 0
    assert wire.receive(request, 2).error_code == 0


def test_a_request_behind_a_failed_login_is_not_answered(wire: Wire) -> None:
    assert handshake(wire) == 0
    token = SaslAuthenticateRequest(auth_bytes=b"\0ann\0wrong")
    wire.socket.sendall(framed(token, 2) + framed(MetadataRequest(), 12))
    assert wire.receive(token, 2).error_code == 58
    assert_closed(wire)


def test_whoever_does_not_log_in_is_turned_away() -> None:
    with (
        Broker(_SETTINGS) as broker,
        Wire(broker.bootstrap_servers) as silent,
        Wire(broker.bootstrap_servers) as slow,
        Wire(broker.bootstrap_servers) as known,
    ):
        known.log_in("ann", "pencil")
        slow.socket.sendall(struct.pack(">i", 100) + b"x")
        broker.clock.advance(31)
        for wire in (silent, slow):
            assert_closed(wire)
        assert known.ask(DescribeClusterRequest()).error_code == 0


# --- sessions that end -------------------------------------------------------------------------------------


def test_a_session_ends_and_is_renewed() -> None:
    with Broker({**_SETTINGS, "connections.max.reauth.ms": "4000"}) as broker:
        with Wire(broker.bootstrap_servers) as wire:
            assert handshake(wire) == 0
            assert authenticate(wire) == (0, "", b"", 4000)
            assert handshake(wire) == ErrorCode.ILLEGAL_SASL_STATE  # sooner than after a second
            broker.clock.advance(3)
            assert handshake(wire) == 0
            assert authenticate(wire) == (0, "", b"", 4000)
            assert wire.ask(DescribeClusterRequest()).error_code == 0
            broker.clock.advance(5)
            assert handshake(wire) == 0  # a login is taken though the session is over
            assert authenticate(wire) == (0, "", b"", 4000)
            broker.clock.advance(5)
            wire.send(DescribeClusterRequest(), 2)
            assert_closed(wire)
        with Wire(broker.bootstrap_servers) as wire:
            wire.log_in("ann", "pencil")
            broker.clock.advance(2)
            assert handshake(wire) == 0
            code, message, _, _ = authenticate(wire, b"\0bob\0pen")  # type: ignore[misc]
            assert code == 58
            assert message == "Cannot change principals during re-authentication from User.ann: User.bob"


# --- real clients ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "number", "algorithm"), [("SCRAM-SHA-256", 1, "sha256"), ("SCRAM-SHA-512", 2, "sha512")]
)
def test_librdkafka_with_scram(broker: Broker, mechanism: str, number: int, algorithm: str) -> None:
    salted = salted_password(algorithm, b"secret", b"salt", 8192)
    setting = ScramCredentialUpsertion("zoë", number, 8192, b"salt", salted)
    with Wire(broker.bootstrap_servers).log_in("ann", "pencil") as wire:
        (result,) = wire.ask(AlterUserScramCredentialsRequest([], [setting])).results
        assert result.error_code == 0
    client = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "zoë",
        "sasl.password": "secret",
    }
    producer = Producer(client)
    producer.produce(f"of-{mechanism}", b"v")
    assert producer.flush(10) == 0
    assert len(broker.records(f"of-{mechanism}")) == 1
    refused = AdminClient({**client, "sasl.password": "wrong"})
    with pytest.raises(Exception, match=r"timed out|transport"):
        refused.list_topics(timeout=1)
