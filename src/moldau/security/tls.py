"""Certificates and keys from files and texts, in the forms that Kafka's settings know: PEM, PKCS12 and JKS.

Invariant: inside, everything is PEM text. A key leaves this process only through a file that this user alone
can read, for the moment in which Python's ``ssl`` reads it. No error shows a key or a password.
"""

import base64
import ssl
from pathlib import Path
from typing import NamedTuple

from moldau.security.jks import MAGIC, read_jks


class KeyMaterial(NamedTuple):
    """PEM texts: a certificate with its chain and its key, or certificates to trust."""

    certificates: str
    key: str = ""

    def __repr__(self) -> str:
        return "KeyMaterial(…)"


def read_store(path: str, kind: str, password: str | None, key_password: str | None = None) -> KeyMaterial:
    """A key store or a trust store; ValueError, with the file's name, for one that cannot be used.

    ``key_password`` is for a JKS key store whose key has a password of its own.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    if b"-----BEGIN" in data:
        return from_pem(data.decode("utf-8", "replace"))
    try:
        if data[:4] == MAGIC or (kind.upper() == "JKS" and data[:1] != b"\x30"):
            return _from_jks(data, password or "", key_password)
        return _from_pkcs12(data, password)
    except ImportError as error:
        raise ValueError(f"{path} needs the package {error.name}: install moldau[security]") from None
    except Exception as error:  # the libraries raise many kinds; what they say names no secret
        raise ValueError(
            f"{path} cannot be read as {kind}: {type(error).__name__}; check its type and its password"
        ) from None


def from_pem(text: str) -> KeyMaterial:
    """Splits a PEM text; in a properties file its lines may be written with ``\\n``."""
    certificates: list[str] = []
    keys: list[str] = []
    block: list[str] = []
    for line in text.replace("\\n", "\n").splitlines():
        line = line.strip()
        if line.startswith("-----BEGIN"):
            block = [line]
        elif block:
            block.append(line)
            if line.startswith("-----END"):
                (keys if "PRIVATE KEY" in line else certificates).append("\n".join(block) + "\n")
                block = []
    return KeyMaterial("".join(certificates), "".join(keys[:1]))


def _from_pkcs12(data: bytes, password: str | None) -> KeyMaterial:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    own = [] if store.cert is None else [store.cert]
    certificates = [
        each.certificate.public_bytes(Encoding.PEM).decode() for each in own + store.additional_certs
    ]
    key = ""
    if store.key is not None:
        key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return KeyMaterial("".join(certificates), key)


def _from_jks(data: bytes, password: str, key_password: str | None) -> KeyMaterial:
    store = read_jks(data, password, key_password)
    if store.key is not None:
        chain = "".join(_pem("CERTIFICATE", certificate) for certificate in store.chain)
        return KeyMaterial(chain, _pem("PRIVATE KEY", store.key))
    return KeyMaterial("".join(_pem("CERTIFICATE", certificate) for certificate in store.trusted))


def _pem(label: str, data: bytes) -> str:
    text = base64.encodebytes(data).decode()
    return f"-----BEGIN {label}-----\n{text}-----END {label}-----\n"


def load_identity(context: ssl.SSLContext, material: KeyMaterial, password: str) -> None:
    """Gives a context its certificate and key; Python reads them from files only."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="moldau-tls-") as directory:
        chain, key = Path(directory) / "chain.pem", Path(directory) / "key.pem"
        chain.write_text(material.certificates)
        key.write_text(material.key)
        try:
            context.load_cert_chain(chain, key, password=lambda: password)
        except (ssl.SSLError, OSError) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            raise ValueError(f"the certificate and its key cannot be used: {reason}") from None


class LiveContext(ssl.SSLContext):
    """A server's context whose certificates can be exchanged: connections that are open keep theirs."""

    current: ssl.SSLContext

    @classmethod
    def around(cls, context: ssl.SSLContext) -> "LiveContext":
        live = cls(ssl.PROTOCOL_TLS_SERVER)
        live.current = context
        return live

    def wrap_bio(self, *arguments, **options):  # type: ignore[no-untyped-def]
        return self.current.wrap_bio(*arguments, **options)
