"""A small certificate authority for a laptop or a test cluster: keys and certificates in a directory.

Invariant: what is secret is readable by its owner only. Every certificate comes as PEM (key, certificate and
its chain in one file, which is what ``ssl.keystore.type=PEM`` reads) and as PKCS12.
"""

import ipaddress
import os
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

_CA_YEARS = 10
_DAYS = 825


class Authority:
    """The authority whose files are in ``directory``."""

    def __init__(
        self,
        directory: Path,
        certificate: "x509.Certificate",
        key: "EllipticCurvePrivateKey | RSAPrivateKey",
        password: str,
    ):
        self.directory = directory
        #: Of the PKCS12 files.
        self.password = password
        self._certificate = certificate
        self._key = key

    @classmethod
    def create(cls, directory: Path) -> "Authority":
        """A new authority; FileExistsError where there is one."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (directory / "ca.pem").exists():
            raise FileExistsError(f"there is an authority in {directory}")
        key, name = _new_key(), _name({"CN": "Moldau certificate authority"})
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=365 * _CA_YEARS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        _write(directory / "ca.pem", _pem(certificate), secret=False)
        _write(directory / "ca.key", _private_pem(key))
        _write(directory / "password", secrets.token_urlsafe(16).encode())
        return cls.open(directory)

    @classmethod
    def open(cls, directory: Path) -> "Authority":
        """FileNotFoundError where there is none."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        certificate = x509.load_pem_x509_certificate((directory / "ca.pem").read_bytes())
        key = load_pem_private_key((directory / "ca.key").read_bytes(), None)
        # Authorities of earlier releases have an RSA key.
        assert isinstance(key, EllipticCurvePrivateKey | RSAPrivateKey)
        return cls(directory, certificate, key, (directory / "password").read_text())

    def issue(
        self,
        name: str,
        *,
        hosts: Sequence[str] = (),
        subject: Mapping[str, str] | None = None,
        days: int = _DAYS,
    ) -> Path:
        """A key and a certificate, for a broker with ``hosts`` and for a client without; the PEM file."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key, now = _new_key(), datetime.now(UTC)
        public = self._key.public_key()
        builder = (
            x509.CertificateBuilder(
                self._certificate.subject,
                _name(subject or {"CN": name}),
                key.public_key(),
                x509.random_serial_number(),
            )
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        path = self.directory / f"{name}.pem"
        _write(path, _private_pem(key) + _pem(certificate) + _pem(self._certificate))
        _write(self.directory / f"{name}.p12", self._pkcs12(name, key, certificate))
        return path

    def _pkcs12(self, name: str, key: "EllipticCurvePrivateKey", certificate: "x509.Certificate") -> bytes:
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

        encryption = BestAvailableEncryption(self.password.encode())
        return pkcs12.serialize_key_and_certificates(
            name.encode(), key, certificate, [self._certificate], encryption
        )


def _new_key() -> "EllipticCurvePrivateKey":
    """Of an elliptic curve: every handshake is a signature, and one with RSA costs the broker much more."""
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(parts: Mapping[str, str]) -> "x509.Name":
    """From ``CN``, ``OU``, ``O`` …; a certificate has them from the widest to the narrowest."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    kinds = {
        "CN": NameOID.COMMON_NAME,
        "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
        "O": NameOID.ORGANIZATION_NAME,
        "L": NameOID.LOCALITY_NAME,
        "ST": NameOID.STATE_OR_PROVINCE_NAME,
        "C": NameOID.COUNTRY_NAME,
    }
    return x509.Name(
        [x509.NameAttribute(kinds[kind], value) for kind, value in reversed(list(parts.items()))]
    )


def _usage(*, signs: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=not signs,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: "x509.Certificate") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _private_pem(key: "EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, data: bytes, *, secret: bool = True) -> None:
    """A secret file is never readable by others, not even for a moment."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if secret else 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
