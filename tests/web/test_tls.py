"""From files to contexts: who shows a certificate, and who asks for one."""

import ssl
from pathlib import Path

import pytest

from moldau.web.tls import TlsOptions


@pytest.fixture
def options(tls_files: Path) -> TlsOptions:
    return TlsOptions(tls_files / "server.pem", tls_files / "server.key")


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, host: str = "127.0.0.1") -> bytes | None:
    """The certificate that the client showed; raises what either side has against the other."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = {
        "client": client.wrap_bio(to_client, to_server, server_hostname=host),
        "server": server.wrap_bio(to_server, to_client, server_side=True),
    }
    for _ in range(5):
        for side in sides.values():
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    sides["client"].write(b"hello")
    assert sides["server"].read() == b"hello"
    return sides["server"].getpeercert(binary_form=True)


def test_a_service_shows_its_certificate_and_asks_for_none(options: TlsOptions, tls_files: Path) -> None:
    trusting = ssl.create_default_context(cafile=str(tls_files / "server.pem"))
    assert options.server_context().verify_mode is ssl.CERT_NONE
    assert handshake(trusting, options.server_context()) is None


def test_a_service_with_authorities_asks_for_a_certificate(options: TlsOptions, tls_files: Path) -> None:
    asking = TlsOptions(options.certificate, options.key, tls_files / "client.pem").server_context()
    assert asking.verify_mode is ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=str(tls_files / "server.pem"))
    with pytest.raises(ssl.SSLError):
        handshake(client, asking)
    client.load_cert_chain(tls_files / "client.pem", tls_files / "client.key")
    assert handshake(client, asking) is not None


def test_an_instance_speaks_to_another_with_its_own_certificate(options: TlsOptions, tls_files: Path) -> None:
    """They share a certificate here, and trust it."""
    shared = TlsOptions(options.certificate, options.key, options.certificate)
    shown = handshake(shared.client_context(), shared.server_context())
    assert shown == ssl.PEM_cert_to_DER_cert(options.certificate.read_text())


def test_an_instance_trusts_no_other_certificate(options: TlsOptions, tls_files: Path) -> None:
    other = TlsOptions(tls_files / "client.pem", tls_files / "client.key")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(options.client_context(), other.server_context())
    trusting = TlsOptions(options.certificate, options.key, tls_files / "client.pem")
    handshake(trusting.client_context(), other.server_context())


def test_a_certificate_and_its_key_in_one_file(options: TlsOptions, tmp_path: Path) -> None:
    assert options.key is not None
    both = tmp_path / "both.pem"
    both.write_text(options.certificate.read_text() + options.key.read_text())
    handshake(options.client_context(), TlsOptions(both).server_context())


@pytest.mark.slow
def test_files_that_cannot_be_used(options: TlsOptions, tls_files: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    unusable = [
        TlsOptions(missing),
        TlsOptions(broken),
        TlsOptions(options.certificate),  # without its key
        TlsOptions(options.certificate, tls_files / "client.key"),
        TlsOptions(options.certificate, options.key, missing),
        TlsOptions(options.certificate, options.key, broken),
    ]
    for each in unusable:
        for make in (each.server_context, each.client_context):
            with pytest.raises((ssl.SSLError, FileNotFoundError)):
                make()
