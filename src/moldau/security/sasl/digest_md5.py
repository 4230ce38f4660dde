"""The client's side of DIGEST-MD5 (RFC 2831), which ZooKeeper's own login module speaks.

The mechanism is old: MD5 protects nothing, so the way to ZooKeeper is to be a private one or TLS. Kafka's own
listeners do not have it.

Pure: the nonce comes in. Invariant: the exchange ends well only when the server has proved that it knows the
password; no layer but plain authentication is agreed to, and no error shows the password.
"""

import hashlib
import hmac
import re

from moldau.security.sasl.client import SaslFailed

_DIRECTIVE = re.compile(rb'\s*([A-Za-z\-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^",\s]+))\s*(?:,|$)')
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_COUNT = b"00000001"
_MOST_BYTES = 2048  # RFC 2831: a challenge is shorter


class DigestMd5Client:
    """``uri`` is the service and its host: ``zookeeper/zk-sasl-md5``."""

    def __init__(self, username: str, password: str, uri: str, nonce: str) -> None:
        self._username = username.encode()
        self._password = password.encode()
        self._uri = uri.encode()
        self._nonce = nonce.encode()
        self._proof_of_server: bytes | None = None

    def first(self) -> bytes:
        return b""  # the server speaks first

    def answer(self, challenge: bytes) -> bytes | None:
        """The next token; None when nothing is left to say."""
        if self._proof_of_server is not None:
            proof = _directives(challenge).get("rspauth", b"")
            if not hmac.compare_digest(proof, self._proof_of_server):
                raise SaslFailed("the server did not prove that it knows the password")
            return None
        given = _directives(challenge)
        if "nonce" not in given or given.get("algorithm") != b"md5-sess":
            raise SaslFailed("the server does not offer DIGEST-MD5")
        if b"auth" not in (each.strip() for each in given.get("qop", b"auth").split(b",")):
            raise SaslFailed("the server asks for a security layer; use TLS instead")
        realm = given.get("realm", b"")
        secret = _md5(b":".join((self._username, realm, self._password)))
        key = hashlib.md5(b":".join((secret, given["nonce"], self._nonce)), usedforsecurity=False)
        self._proof_of_server = self._response(key.hexdigest().encode(), given["nonce"], b"")
        response = self._response(key.hexdigest().encode(), given["nonce"], b"AUTHENTICATE")
        return b",".join(
            (
                b"charset=utf-8",
                b"username=" + _quoted(self._username),
                b"realm=" + _quoted(realm),
                b"nonce=" + _quoted(given["nonce"]),
                b"nc=" + _COUNT,
                b"cnonce=" + _quoted(self._nonce),
                b"digest-uri=" + _quoted(self._uri),
                b"response=" + response,
                b"qop=auth",
            )
        )

    def _response(self, key: bytes, nonce: bytes, method: bytes) -> bytes:
        asked = hashlib.md5(method + b":" + self._uri, usedforsecurity=False).hexdigest().encode()
        text = b":".join((key, nonce, _COUNT, self._nonce, b"auth", asked))
        return hashlib.md5(text, usedforsecurity=False).hexdigest().encode()


def _md5(text: bytes) -> bytes:
    return hashlib.md5(text, usedforsecurity=False).digest()


def _quoted(text: bytes) -> bytes:
    return b'"' + text.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def _directives(text: bytes) -> dict[str, bytes]:
    """The words of a challenge; of a repeated one the first (several realms: the first is taken)."""
    if len(text) > _MOST_BYTES:
        raise SaslFailed("the server's challenge is too long")
    found: dict[str, bytes] = {}
    position = 0
    while position < len(text):
        match = _DIRECTIVE.match(text, position)
        if match is None:
            raise SaslFailed("the server's challenge cannot be read")
        quoted, bare = match[2], match[3]
        value = bare if quoted is None else _ESCAPE.sub(rb"\1", quoted)
        found.setdefault(match[1].decode("ascii").lower(), value)
        position = match.end()
    return found
