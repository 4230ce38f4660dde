"""Reads Java's old key stores (JKS): certificates that are trusted, and keys with their chains.

The form is Sun's, unchanged since 1998: numbers and texts in network order, keys hidden behind a stream of
SHA-1 hashes, and a hash of everything with the password at the end. New stores are PKCS12, which
``cryptography`` reads; this file is for those that are still around.

Invariant: nothing of a store counts before its hash fits the password. Every length is compared with the
bytes that are there. No error shows a password or a key.
"""

import hashlib
import hmac
import struct
from typing import NamedTuple

MAGIC = b"\xfe\xed\xfe\xed"
#: What Java hashes between the password and the content.
_SALT = b"Mighty Aphrodite"
#: 1.3.6.1.4.1.42.2.17.1.1: Sun's way to hide a key.
_HIDDEN_BY_SUN = bytes.fromhex("060a2b060104012a02110101")
_KEY, _CERTIFICATE = 1, 2
#: More than any store has; a count beyond it is damage.
_MOST_ENTRIES = 100_000


class JavaKeyStore(NamedTuple):
    """The first key as PKCS8 with its chain, if there is one, and what is trusted; all of it DER."""

    key: bytes | None
    chain: tuple[bytes, ...]
    trusted: tuple[bytes, ...]

    def __repr__(self) -> str:
        return "JavaKeyStore(…)"


def read_jks(data: bytes, password: str, key_password: str | None = None) -> JavaKeyStore:
    """The content of a store; ValueError when it is damaged or the password is another one."""
    content, digest = data[:-20], data[-20:]
    secret = password.encode("utf-16-be", "surrogatepass")
    if data[:4] != MAGIC:
        raise ValueError("it is no JKS key store")
    if not hmac.compare_digest(hashlib.sha1(secret + _SALT + content).digest(), digest):
        raise ValueError("the password is wrong, or the key store is damaged")
    reader = _Reader(content, 4)
    version, count = reader.number(), reader.number()
    if version not in (1, 2) or count > _MOST_ENTRIES:
        raise ValueError("it is no JKS key store")
    key: bytes | None = None
    chain: tuple[bytes, ...] = ()
    trusted: list[bytes] = []
    for _ in range(count):
        tag = reader.number()
        reader.text()  # the alias
        reader.take(8)  # when it was made
        if tag == _CERTIFICATE:
            trusted.append(reader.certificate(version))
        elif tag == _KEY:
            hidden = reader.block()
            its_chain = tuple(reader.certificate(version) for _ in range(reader.count()))
            if key is None:
                own = secret if key_password is None else key_password.encode("utf-16-be", "surrogatepass")
                key, chain = _uncovered(hidden, own), its_chain
        else:
            raise ValueError("it has entries of an unknown kind")
    return JavaKeyStore(key, chain, tuple(trusted))


class _Reader:
    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def take(self, size: int) -> bytes:
        end = self.position + size
        if end > len(self.data):
            raise ValueError("it ends too early")
        part = self.data[self.position : end]
        self.position = end
        return part

    def number(self) -> int:
        (value,) = struct.unpack(">I", self.take(4))
        return int(value)

    def count(self) -> int:
        value = self.number()
        if value > len(self.data) - self.position:
            raise ValueError("it ends too early")
        return value

    def text(self) -> bytes:
        (size,) = struct.unpack(">H", self.take(2))
        return self.take(size)

    def block(self) -> bytes:
        return self.take(self.number())

    def certificate(self, version: int) -> bytes:
        if version == 2 and self.text() != b"X.509":
            raise ValueError("it has certificates of an unknown kind")
        return self.block()


def _uncovered(hidden: bytes, secret: bytes) -> bytes:
    """The PKCS8 key of an EncryptedPrivateKeyInfo: a salt, the key under a stream of hashes, and a check."""
    algorithm, covered = _private_key_info(hidden)
    if not algorithm.startswith(_HIDDEN_BY_SUN):
        raise ValueError("its key is encrypted in an unknown way")
    if len(covered) < 40:
        raise ValueError("it ends too early")
    block, body, check = covered[:20], covered[20:-20], covered[-20:]
    stream = bytearray()
    while len(stream) < len(body):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    key = bytes(a ^ b for a, b in zip(body, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
        raise ValueError("the password of the key is wrong")
    return key


def _private_key_info(data: bytes) -> tuple[bytes, bytes]:
    """``SEQUENCE { SEQUENCE algorithm, OCTET STRING covered }``, the two parts."""
    whole, rest = _element(data, 0x30)
    algorithm, after = _element(whole, 0x30)
    covered, end = _element(after, 0x04)
    if rest or end:
        raise ValueError("its key is written in an unknown way")
    return algorithm, covered


def _element(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """The content of the DER element that the data begins with, and what comes after it."""
    if len(data) < 2 or data[0] != tag:
        raise ValueError("its key is written in an unknown way")
    size, start = data[1], 2
    if size >= 0x80:
        start += size - 0x80
        if not 0x81 <= size <= 0x84 or len(data) < start:
            raise ValueError("its key is written in an unknown way")
        size = int.from_bytes(data[2:start])
    if len(data) < start + size:
        raise ValueError("it ends too early")
    return data[start : start + size], data[start + size :]
