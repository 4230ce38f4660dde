"""SASL over a connection that has just been made: the handshake, then the exchange's tokens.

Invariant: a refusal is final (``AuthenticationFailed``): trying a wrong password again does not help and
may lock the account. No message contains a secret.
"""

import asyncio
import secrets
import ssl
from dataclasses import replace
from typing import TYPE_CHECKING

from moldau.client.transport.security import Security
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest
from moldau.security.sasl.client import SaslFailed, begin

if TYPE_CHECKING:
    from moldau.client.transport.connection import Connection


_PASSWORD = "sasl.username and sasl.password"
#: What may be wrong, by mechanism.
_CHECK = {
    "GSSAPI": "sasl.kerberos.service.name, and keyTab and principal of sasl.jaas.config",
    "OAUTHBEARER": "the token, or sasl.oauthbearer.token.endpoint.url and its client id and secret",
}


class AuthenticationFailed(KafkaError):
    """The broker refused us, or we refused the broker."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.SASL_AUTHENTICATION_FAILED, message)

    def __str__(self) -> str:
        return str(self.message)


async def authenticate(connection: "Connection", security: Security) -> None:
    """Logs in; afterwards the connection takes requests."""
    address, mechanism = connection.address, security.mechanism
    if ApiKey.SASL_HANDSHAKE not in connection.api_versions:
        raise _no_login(address, security)
    answer = await connection.send(SaslHandshakeRequest(mechanism=mechanism))
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise _no_login(address, security)
    if answer.error_code:
        raise AuthenticationFailed(
            f"{address} does not take sasl.mechanism={mechanism}; "
            f"it offers {', '.join(answer.mechanisms) or 'none'}"
        )
    try:
        if mechanism == "GSSAPI":
            await _exchange_tickets(connection, security)
            return
        credentials = security.credentials
        if credentials.token_url:
            from moldau.client.transport.bearer_token import fetched_token

            credentials = replace(credentials, token=await asyncio.to_thread(fetched_token, credentials))
        exchange = begin(mechanism, credentials, secrets.token_urlsafe(24))
        token: bytes | None = exchange.first()
        while token is not None:
            token = exchange.answer(await _said(connection, token))
    except SaslFailed as error:
        name = security.credentials.username
        who = f" as {name!r}" if name else ""
        raise AuthenticationFailed(
            f"no login at {address}{who} with {mechanism}: {error}; check {_CHECK.get(mechanism, _PASSWORD)}"
        ) from None


async def _said(connection: "Connection", token: bytes) -> bytes:
    answer = await connection.send(SaslAuthenticateRequest(auth_bytes=token))
    if answer.error_code:
        raise SaslFailed(answer.error_message or "the broker refused the credentials")
    return bytes(answer.auth_bytes)


async def _exchange_tickets(connection: "Connection", security: Security) -> None:
    """Kerberos; its library asks a KDC and may wait for it, so it has a thread."""
    from moldau.security.kerberos_tickets import kerberos_exchange

    host = connection.address.rpartition(":")[0].strip("[]")
    exchange = kerberos_exchange(security.credentials, host)
    token: bytes | None = await asyncio.to_thread(exchange.first)
    while token is not None:
        challenge = await _said(connection, token)
        token = await asyncio.to_thread(exchange.answer, challenge)


def _no_login(address: str, security: Security) -> AuthenticationFailed:
    protocol = "SSL" if security.encrypted else "PLAINTEXT"
    return AuthenticationFailed(f"{address} asks for no login: use security.protocol={protocol}")


def refused_certificate(address: str, error: ssl.SSLError) -> AuthenticationFailed:
    """Why a TLS handshake failed, and what helps."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationFailed(
            f"the certificate of {address} is not trusted: {error.verify_message}; "
            "name the authority that signed it with ssl.ca.location"
        )
    return AuthenticationFailed(
        f"no TLS with {address}: {error.reason or error}; check that this is a TLS listener "
        "(security.protocol) and that the client's certificate is the right one"
    )
