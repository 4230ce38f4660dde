"""The client's side of SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER, step by step.

    exchange = begin("SCRAM-SHA-512", Credentials("ada", "secret"), nonce)
    token = exchange.first()
    ... token goes to the broker, its challenge comes back ...
    token = exchange.answer(challenge)      # None when nothing is left to say

Pure: the nonce comes in. A broker that cannot prove that it knows the password is refused
(``SaslFailed``), as RFC 5802 asks of a client.
"""

import base64
import binascii
import hmac
from dataclasses import dataclass
from typing import Protocol

from moldau.security.scram import (
    LEAST_ITERATIONS,
    ScramMechanism,
    client_proof,
    salted_password,
    server_signature,
)

#: What clients and brokers know; GSSAPI needs a package of its own (``kerberos.py``).
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")

#: A broker could ask for so many rounds that the client never comes back.
_MOST_ITERATIONS = 1_000_000


class SaslFailed(Exception):
    """The exchange cannot go on; the text says why."""


@dataclass(frozen=True, slots=True)
class Credentials:
    username: str = ""
    password: str = ""
    token: str = ""
    #: The user name is the id of a delegation token and the password its HMAC.
    by_delegation_token: bool = False
    #: For Kerberos: the file with the client's key, empty for the tickets that there are; and what the
    #: brokers are called.
    key_table: str = ""
    service: str = ""
    #: Where a token is fetched with user name and password, and for which scope.
    token_url: str = ""
    scope: str = ""

    def __repr__(self) -> str:
        return f"Credentials(username={self.username!r})"


class Exchange(Protocol):
    def first(self) -> bytes: ...

    def answer(self, challenge: bytes) -> bytes | None: ...


def begin(mechanism: str, credentials: Credentials, nonce: str) -> Exchange:
    """The exchange of one connection."""
    match mechanism:
        case "PLAIN":
            return _OneToken(f"\0{credentials.username}\0{credentials.password}".encode())
        case "OAUTHBEARER":
            return _OneToken(f"n,,\x01auth=Bearer {credentials.token}\x01\x01".encode())
        case "SCRAM-SHA-256":
            return _Scram(ScramMechanism.SHA_256, credentials, nonce)
        case "SCRAM-SHA-512":
            return _Scram(ScramMechanism.SHA_512, credentials, nonce)
    raise SaslFailed(f"sasl.mechanism={mechanism} is not supported; there are {', '.join(MECHANISMS)}")


class _OneToken:
    """Everything is said at once; what the broker says to it comes with its error code."""

    def __init__(self, token: bytes) -> None:
        self._token = token

    def first(self) -> bytes:
        return self._token

    def answer(self, challenge: bytes) -> bytes | None:
        if challenge.startswith(b"{"):  # OAUTHBEARER tells what is wrong with the token in a JSON text
            raise SaslFailed(f"the broker refused the token: {challenge.decode('utf-8', 'replace')}")
        return None


class _Scram:
    """RFC 5802 without channel binding."""

    def __init__(self, mechanism: ScramMechanism, credentials: Credentials, nonce: str) -> None:
        self._algorithm = mechanism.algorithm
        self._password = credentials.password.encode()
        self._nonce = nonce
        name = credentials.username.replace("=", "=3D").replace(",", "=2C")
        extension = ",tokenauth=true" if credentials.by_delegation_token else ""
        self._first_bare = f"n={name},r={nonce}{extension}"
        self._proof_of_server: bytes | None = None

    def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        fields = _fields(challenge)
        if "e" in fields:
            raise SaslFailed(f"the broker refused the password: {fields['e']}")
        if self._proof_of_server is not None:
            if not hmac.compare_digest(_decoded(fields, "v"), self._proof_of_server):
                raise SaslFailed("the broker could not prove that it knows the password")
            return None
        return self._prove(challenge.decode(), fields)

    def _prove(self, challenge: str, fields: dict[str, str]) -> bytes:
        nonce = fields.get("r", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise SaslFailed("the broker answered with a nonce that is not ours")
        salt, iterations = _decoded(fields, "s"), fields.get("i", "")
        if not iterations.isdecimal() or not LEAST_ITERATIONS <= int(iterations) <= _MOST_ITERATIONS:
            raise SaslFailed(f"the broker asks for {iterations or 'no'} iterations")
        salted = salted_password(self._algorithm, self._password, salt, int(iterations))
        last = f"c=biws,r={nonce}"
        signed = f"{self._first_bare},{challenge},{last}".encode()
        proof = client_proof(self._algorithm, salted, signed)
        server_key = hmac.digest(salted, b"Server Key", self._algorithm)
        self._proof_of_server = server_signature(self._algorithm, server_key, signed)
        return f"{last},p={base64.b64encode(proof).decode()}".encode()


def _fields(challenge: bytes) -> dict[str, str]:
    try:
        parts = challenge.decode().split(",")
    except UnicodeDecodeError:
        raise SaslFailed("the broker's answer is no text") from None
    return {part[0]: part[2:] for part in parts if part[1:2] == "="}


def _decoded(fields: dict[str, str], name: str) -> bytes:
    try:
        return base64.b64decode(fields.get(name, ""), validate=True)
    except (binascii.Error, ValueError):
        raise SaslFailed(f"the broker's field {name!r} is not base64") from None
