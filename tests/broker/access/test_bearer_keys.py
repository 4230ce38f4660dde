"""OAUTHBEARER at a broker: librdkafka with signed tokens, keys that change, and settings that are refused."""

import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from joserfc import jws
from joserfc.jwk import KeySet, RSAKey

from moldau.base.settings import SettingError
from moldau.cli.certificates import Authority
from moldau.protocol.messages.describe_cluster import DescribeClusterRequest
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest
from moldau.testing import Broker
from tests.security.secure_wire import Wire

_FIRST, _SECOND = (RSAKey.generate_key(2048, {"kid": kid}) for kid in ("k1", "k2"))


def _write(path: Path, *keys: RSAKey) -> None:
    path.write_text(json.dumps(KeySet(list(keys)).as_dict(private=False)))


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    _write(path, _FIRST)
    return path


def _settings(url: str, **more: str) -> dict[str, str]:
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": url,
        "sasl.oauthbearer.expected.audience": "kafka",
        "connection.failed.authentication.delay.ms": "1",
        **more,
    }


@pytest.fixture
def broker(keys: Path) -> Iterator[Broker]:
    with Broker(_settings(f"file://{keys}")) as broker:
        yield broker


def _token(broker: Broker, key: RSAKey, name: str = "ann", seconds: int = 300) -> tuple[str, int]:
    now = broker.clock.now_ms() // 1000
    claims = {"sub": name, "aud": "kafka", "iat": now, "exp": now + seconds}
    header = {"alg": "RS256", "kid": key.kid}
    return jws.serialize_compact(
        header, json.dumps(claims).encode(), key, algorithms=["RS256"]
    ), now + seconds


def _login(broker: Broker, token: str) -> tuple[Wire, Any]:
    wire = Wire(broker.bootstrap_servers)
    assert wire.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1).error_code == 0
    first = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    return wire, wire.ask(SaslAuthenticateRequest(auth_bytes=first), 2)


def test_librdkafka(broker: Broker) -> None:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: _token(broker, _FIRST),
        }
    )
    producer.produce("by-token", b"v")
    assert producer.flush(15) == 0
    assert len(broker.records("by-token")) == 1


def test_a_token_that_is_refused_is_refused_in_two_steps(broker: Broker) -> None:
    wire, answer = _login(broker, _token(broker, _FIRST, seconds=-600)[0])
    with wire:
        assert (answer.error_code, bytes(answer.auth_bytes)) == (0, b'{"status":"invalid_token"}')
        last = wire.ask(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)
        assert (last.error_code, last.error_message) == (58, '{"status":"invalid_token"}')


def test_a_new_key_counts_for_the_next_login(broker: Broker, keys: Path) -> None:
    _write(keys, _FIRST, _SECOND)
    token, _ = _token(broker, _SECOND)
    broker.clock.advance(2)
    wire, answer = _login(broker, token)
    wire.socket.close()
    assert answer.auth_bytes
    for _ in range(100):
        wire, answer = _login(broker, token)
        with wire:
            if not answer.auth_bytes:
                assert 0 < answer.session_lifetime_ms <= 300_000
                assert wire.ask(DescribeClusterRequest()).error_code == 0
                return
        broker.clock.advance(2)
    pytest.fail("the new key was not taken")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "needs sasl.oauthbearer.jwks"),
        ("http://x/keys", "https:// or file://"),
        ("file:///nowhere", "cannot be read"),
    ],
)
def test_without_keys_the_listener_does_not_open(url: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Broker(_settings(url)).start()


class _Provider(http.server.BaseHTTPRequestHandler):
    """Its keys at /keys, and a way to them from /elsewhere."""

    keys = b""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/keys" else 302)
        if self.path != "/keys":
            self.send_header("Location", "/keys")
        self.end_headers()
        self.wfile.write(self.keys if self.path == "/keys" else b"")

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.mark.parametrize(("path", "has_keys"), [("/keys", True), ("/elsewhere", False), ("/gone", False)])
def test_keys_over_https_are_there_before_the_first_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, has_keys: bool
) -> None:
    """And only from the address that was named: nobody is led elsewhere."""
    authority = Authority.create(tmp_path)
    identity = authority.issue("provider", hosts=["127.0.0.1"])
    _write(tmp_path / "keys.json", _FIRST)
    _Provider.keys = (tmp_path / "keys.json").read_bytes()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Provider)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.directory / "ca.pem"))
    try:
        with Broker(_settings(f"https://127.0.0.1:{server.server_port}{path}")) as broker:
            wire, answer = _login(broker, _token(broker, _FIRST)[0])
            wire.socket.close()
            assert (not answer.auth_bytes) is has_keys
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
