"""A small certificate authority: files that only their owner reads, and certificates that hold."""

import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509

from moldau.cli.certificates import Authority


@pytest.mark.slow
def test_secrets_are_for_their_owner(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "ca")
    authority.issue("broker", hosts=["localhost", "::1"])
    for name in ("ca.key", "password", "broker.pem", "broker.p12"):
        assert stat.S_IMODE((tmp_path / "ca" / name).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "ca").stat().st_mode) == 0o700


@pytest.mark.slow
def test_an_authority_is_opened_again_and_never_replaced(tmp_path: Path) -> None:
    Authority.create(tmp_path)
    with pytest.raises(FileExistsError):
        Authority.create(tmp_path)
    issued = Authority.open(tmp_path).issue("ann", subject={"CN": "Ann", "O": "Moldau"})
    authority, certificate = (
        x509.load_pem_x509_certificate(path.read_bytes()) for path in (tmp_path / "ca.pem", issued)
    )
    certificate.verify_directly_issued_by(authority)
    assert certificate.subject.rfc4514_string() == "CN=Ann,O=Moldau"


def test_an_authority_with_an_rsa_key_goes_on(tmp_path: Path) -> None:
    """Earlier releases made such keys."""
    from cryptography.hazmat.primitives.asymmetric import rsa

    from moldau.cli import certificates

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificates, "_new_key", lambda: key)
        Authority.create(tmp_path)
    issued = Authority.open(tmp_path).issue("broker", hosts=["localhost"])
    ssl.create_default_context(cafile=str(tmp_path / "ca.pem")).load_cert_chain(issued)
