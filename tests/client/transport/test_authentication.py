"""A login over a connection: the handshake, the tokens, and what a person is told when it fails."""

import asyncio
import ssl
from typing import Any

import pytest

from moldau.client.transport.authentication import AuthenticationFailed, authenticate, refused_certificate
from moldau.client.transport.security import Security
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from moldau.protocol.messages.sasl_handshake import SaslHandshakeResponse


class Connection:
    """Answers the handshake and the first token as it was made to."""

    address = "broker:9093"

    def __init__(self, handshake_error: int = 0, token_error: int = 0, knows_sasl: bool = True) -> None:
        self.api_versions = {ApiKey.SASL_HANDSHAKE: (0, 1)} if knows_sasl else {}
        self.tokens: list[bytes] = []
        self._handshake_error = handshake_error
        self._token_error = token_error

    async def send(self, request: Any) -> Any:
        if isinstance(request, SaslAuthenticateRequest):
            self.tokens.append(bytes(request.auth_bytes))
            return SaslAuthenticateResponse(error_code=self._token_error, error_message="wrong password")
        return SaslHandshakeResponse(error_code=self._handshake_error, mechanisms=["SCRAM-SHA-256"])


def log_in(connection: Connection) -> None:
    security = Security.of(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ana",
            "sasl.password": "secret",
        }
    )
    asyncio.run(authenticate(connection, security))  # type: ignore[arg-type]


def test_a_login() -> None:
    connection = Connection()
    log_in(connection)
    assert connection.tokens == [b"\0ana\0secret"]


@pytest.mark.parametrize(
    ("connection", "words"),
    [
        (Connection(knows_sasl=False), "asks for no login: use security.protocol=PLAINTEXT"),
        (Connection(handshake_error=33), "does not take sasl.mechanism=PLAIN; it offers SCRAM-SHA-256"),
        (Connection(token_error=58), "no login at broker:9093 as 'ana' with PLAIN: wrong password"),
    ],
)
def test_refusals_are_final_and_hold_no_secret(connection: Connection, words: str) -> None:
    with pytest.raises(AuthenticationFailed) as refused:
        log_in(connection)
    assert words in str(refused.value)
    assert "secret" not in str(refused.value)
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not refused.value.retriable


def test_certificates() -> None:
    error = ssl.SSLCertVerificationError("no")
    error.verify_message = "self-signed certificate"
    assert "self-signed certificate; name the authority" in str(refused_certificate("b:1", error))
    odd = ssl.SSLError("odd")
    odd.reason = "WRONG_VERSION_NUMBER"
    text = str(refused_certificate("b:1", odd))
    assert "no TLS with b:1: WRONG_VERSION_NUMBER; check that this is a TLS listener" in text
