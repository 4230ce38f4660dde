"""When certificates end, compared with the library that made them; and bytes that are none."""

from datetime import UTC, datetime, timedelta

import pytest

from moldau.security.certificates import expires_at_ms


@pytest.mark.parametrize("years", [1, 40])
def test_the_end_of_a_certificate(years: int) -> None:
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    end = datetime(2024 + years, 5, 17, 12, 30, 15, tzinfo=UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(end - timedelta(days=10))
        .not_valid_after(end)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM).decode()
    assert expires_at_ms(f"Bag Attributes\n{pem}") == int(end.timestamp() * 1000)
    assert expires_at_ms(pem.replace("M", "A")) is None


@pytest.mark.parametrize(
    "pem", ["", "no certificate", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"]
)
def test_what_is_none_has_no_end(pem: str) -> None:
    assert expires_at_ms(pem) is None
