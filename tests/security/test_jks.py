"""Java's old key stores: two that keytool made, and what is left of them after damage."""

import base64
import hashlib
import random
import ssl
from pathlib import Path

import pytest

from moldau.security.jks import read_jks
from moldau.security.tls import load_identity, read_store

#: keytool -genkeypair -storetype JKS -storepass changeit -keypass another
_ONE = base64.b64decode(
    """
/u3+7QAAAAIAAAABAAAAAQADb25lAAABoexVzysAAAB/MH0wDgYKKwYBBAEqAhEBAQUABGskIXMJfULdixewoJ8iBuOy6Lp/RKhR
YWeQz21IzcyvVyXfoHFoHPy5YL1NtGWc3VQy2xG8NfLJ3LDTq7wgJBpuinnxIkeiMvel0xXmfn8hZh7MhcKqynf3bRTyJyJPhxJ8
iMLcc/voFrUdEQAAAAEABVguNTA5AAABXDCCAVgwgf6gAwIBAgIJAJbwpLVO37fXMAoGCCqGSM49BAMCMB8xDzANBgNVBAoTBk1v
bGRhdTEMMAoGA1UEAxMDb25lMCAXDTI2MTExODAxNDY0OFoYDzIxMjYxMDI1MDE0NjQ4WjAfMQ8wDQYDVQQKEwZNb2xkYXUxDDAK
BgNVBAMTA29uZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABLqJCiR1JYOyQjblb65NWuYplJuAbSBV5HD9NinTXAgWgo90bOXP
IwTHxe2oCj1zgvTjJix4fqwBmIYgTGm5J/OjITAfMB0GA1UdDgQWBBScSgDSzhwJjXDJscVEdKOTRS3h2TAKBggqhkjOPQQDAgNJ
ADBGAiEAqwTb0jadlyLnxr1cyNXpUB6EBK6Qe1K+Bgmo3g006CcCIQDu9YdYYRMo3qIC94DoQght07nCGr68VwEJmy4zgma1qbGx
uOBe5KGc7ihtJbuaDaWQY8D7
"""
)
#: keytool -importcert of its certificate
_TRUST = base64.b64decode(
    """
/u3+7QAAAAIAAAABAAAAAgACY2EAAAGh7FXT2wAFWC41MDkAAAFcMIIBWDCB/qADAgECAgkAlvCktU7ft9cwCgYIKoZIzj0EAwIw
HzEPMA0GA1UEChMGTW9sZGF1MQwwCgYDVQQDEwNvbmUwIBcNMjYxMTE4MDE0NjQ4WhgPMjEyNjEwMjUwMTQ2NDhaMB8xDzANBgNV
BAoTBk1vbGRhdTEMMAoGA1UEAxMDb25lMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEuokKJHUlg7JCNuVvrk1a5imUm4BtIFXk
cP02KdNcCBaCj3Rs5c8jBMfF7agKPXOC9OMmLHh+rAGYhiBMabkn86MhMB8wHQYDVR0OBBYEFJxKANLOHAmNcMmxxUR0o5NFLeHZ
MAoGCCqGSM49BAMCA0kAMEYCIQCrBNvSNp2XIufGvVzI1elQHoQErpB7Ur4GCajeDTToJwIhAO71h1hhEyjeogL3gOhCCG3TucIa
vrxXAQmbLjOCZrWpFTsXLWByL7HHHP8n9VAfIZDMRCw=
"""
)
_FINGERPRINT = "aef32a2dbed53a343214bd8db017b7f1974a5507b372b58d4dd28c80d94c11da"


def test_a_key_with_a_password_of_its_own() -> None:
    store = read_jks(_ONE, "changeit", "another")
    assert store.key is not None
    assert not store.trusted
    (certificate,) = store.chain
    assert hashlib.sha256(certificate).hexdigest() == _FINGERPRINT
    assert repr(store) == "JavaKeyStore(…)"


def test_certificates_to_trust() -> None:
    store = read_jks(_TRUST, "changeit")
    assert (store.key, store.chain) == (None, ())
    assert [hashlib.sha256(each).hexdigest() for each in store.trusted] == [_FINGERPRINT]


def test_a_broker_can_use_the_key(tmp_path: Path) -> None:
    path = tmp_path / "one.jks"
    path.write_bytes(_ONE)
    material = read_store(str(path), "JKS", "changeit", "another")
    load_identity(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), material, "another")


@pytest.mark.parametrize(
    ("password", "key_password", "reason"),
    [
        ("hunter2", "another", "the password is wrong, or the key store is damaged"),
        ("changeit", None, "the password of the key is wrong"),
        ("changeit", "hunter2", "the password of the key is wrong"),
    ],
)
def test_wrong_passwords(password: str, key_password: str | None, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as raised:
        read_jks(_ONE, password, key_password)
    assert "hunter2" not in str(raised.value)


def _sealed(content: bytes) -> bytes:
    """A store whose hash fits whatever it has."""
    secret = "changeit".encode("utf-16-be")
    return content + hashlib.sha1(secret + b"Mighty Aphrodite" + content).digest()


def test_nothing_of_a_damaged_store_counts() -> None:
    draw = random.Random(18)
    for _ in range(300):
        damaged = bytearray(_ONE)
        damaged[draw.randrange(len(damaged))] ^= draw.randrange(1, 256)
        with pytest.raises(ValueError, match=r"damaged|no JKS"):
            read_jks(bytes(damaged), "changeit", "another")


def test_a_store_that_somebody_sealed_again_is_read_within_its_bytes() -> None:
    """Whoever knows the password can write anything: it is read, or refused with a ``ValueError``."""
    draw = random.Random(19)
    refused = 0
    for _ in range(2000):
        content = bytearray(_ONE[:-20])
        for _ in range(draw.randrange(1, 4)):
            content[draw.randrange(4, len(content))] = draw.randrange(256)
        try:
            read_jks(_sealed(bytes(content)), "changeit", "another")
        except ValueError:
            refused += 1
    assert refused > 200
    for length in range(len(_ONE) - 20):
        with pytest.raises(ValueError, match=r"too early|no JKS"):
            read_jks(_sealed(_ONE[:length]), "changeit", "another")
