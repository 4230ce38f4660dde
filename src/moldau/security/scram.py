"""SCRAM (RFC 5802): what is stored of a password, and the proofs that both sides compute from it.

Invariant: a stored credential lets nobody log in who does not know the password, and proofs are compared in
constant time. Iterations are bounded on both sides: nobody can make the other compute for minutes.
"""

import hashlib
import hmac
import re
from enum import IntEnum
from typing import NamedTuple

LEAST_ITERATIONS = 4096
#: What a broker stores at most; our client computes with more where another broker asks for it.
MOST_ITERATIONS = 16384
#: Java's tools write a number of 130 bits as text for a salt.
_DIGITS = b"0123456789abcdefghijklmnopqrstuvwxyz"
_JAVA_SALT = re.compile(rb"[0-9a-z]{20,26}")


class ScramMechanism(IntEnum):
    """With the numbers of the protocol."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def algorithm(self) -> str:
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def title(self) -> str:
        return "SCRAM-SHA-256" if self is ScramMechanism.SHA_256 else "SCRAM-SHA-512"


MECHANISMS = {each.title: each for each in ScramMechanism}


class ScramCredential(NamedTuple):
    """What a broker keeps of a password."""

    mechanism: ScramMechanism
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential({self.mechanism.title}, iterations={self.iterations})"


def digest(algorithm: str, data: bytes) -> bytes:
    return hashlib.new(algorithm, data).digest()


def salted_password(algorithm: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(algorithm, password, salt, iterations)


def credential_from_salted(
    mechanism: ScramMechanism, salt: bytes, salted: bytes, iterations: int
) -> ScramCredential:
    """From what a client sends that sets a password: the password itself does not travel."""
    algorithm = mechanism.algorithm
    stored_key = digest(algorithm, hmac.digest(salted, b"Client Key", algorithm))
    return ScramCredential(
        mechanism, salt, stored_key, hmac.digest(salted, b"Server Key", algorithm), iterations
    )


def credential(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int = LEAST_ITERATIONS
) -> ScramCredential:
    salted = salted_password(mechanism.algorithm, password.encode(), salt, iterations)
    return credential_from_salted(mechanism, salt, salted, iterations)


def fake_credential(
    mechanism: ScramMechanism, user: str, secret: bytes, like: ScramCredential | None = None
) -> ScramCredential:
    """What a user that does not exist is asked for: always the same for a name, and never fulfilled.

    ``secret`` is the brokers' own, so that nobody can tell such a salt from a real one. It looks ``like`` one
    that there is: the tools that set passwords make salts each in its own way.
    """
    made = hashlib.shake_256(secret + f" salt of {user}".encode())
    key = hmac.digest(secret, f"key of {user}".encode(), mechanism.algorithm)
    if like is None:
        return ScramCredential(mechanism, made.digest(16), key, key, LEAST_ITERATIONS)
    salt = made.digest(len(like.salt))
    if _JAVA_SALT.fullmatch(like.salt):
        salt = _in_base_36(int.from_bytes(made.digest(17), "big") >> 6)
    return ScramCredential(mechanism, salt, key, key, like.iterations)


def _in_base_36(number: int) -> bytes:
    digits = bytearray()
    while number:
        number, digit = divmod(number, 36)
        digits.append(_DIGITS[digit])
    return bytes(reversed(digits))


def client_proof(algorithm: str, salted: bytes, signed: bytes) -> bytes:
    """What shows that a client knows the password."""
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    signature = hmac.digest(digest(algorithm, client_key), signed, algorithm)
    return bytes(a ^ b for a, b in zip(client_key, signature, strict=True))


def server_signature(algorithm: str, server_key: bytes, signed: bytes) -> bytes:
    """What shows that a broker knows the password."""
    return hmac.digest(server_key, signed, algorithm)


def proves(known: ScramCredential, proof: bytes, signed: bytes) -> bool:
    """Whether a client's proof belongs to this credential."""
    algorithm = known.mechanism.algorithm
    signature = hmac.digest(known.stored_key, signed, algorithm)
    if len(proof) != len(signature):
        return False
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    return hmac.compare_digest(digest(algorithm, client_key), known.stored_key)
