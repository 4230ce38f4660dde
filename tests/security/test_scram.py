"""SCRAM's arithmetic."""

import re

import pytest

from moldau.security.scram import (
    ScramMechanism,
    client_proof,
    credential,
    fake_credential,
    proves,
    salted_password,
)


def test_only_the_right_password_proves() -> None:
    for mechanism in ScramMechanism:
        known = credential(mechanism, "pencil", b"salt")
        salted = salted_password(mechanism.algorithm, b"pencil", b"salt", 4096)
        proof = client_proof(mechanism.algorithm, salted, b"signed")
        assert proves(known, proof, b"signed")
        assert not proves(known, proof, b"other")
        assert not proves(known, proof[:-1], b"signed")
        assert not proves(known, b"", b"signed")


def test_a_fake_credential_is_always_the_same() -> None:
    first = fake_credential(ScramMechanism.SHA_256, "nobody", b"secret")
    assert first == fake_credential(ScramMechanism.SHA_256, "nobody", b"secret")
    assert first.salt != fake_credential(ScramMechanism.SHA_256, "other", b"secret").salt
    assert first.salt != fake_credential(ScramMechanism.SHA_256, "nobody", b"other").salt


@pytest.mark.parametrize(
    ("salt", "shape"),
    [
        (b"1x8kq0v7m3c9d2f5g6h4j8k1lp", rb"[0-9a-z]{22,26}"),  # Kafka's own tools
        (bytes(range(64)), rb"(?s).{64}"),
        (bytes(16), rb"(?s).{16}"),
    ],
)
def test_a_fake_credential_looks_like_those_that_there_are(salt: bytes, shape: bytes) -> None:
    like = credential(ScramMechanism.SHA_512, "pencil", salt, 8192)
    salts = set()
    for number in range(50):
        fake = fake_credential(ScramMechanism.SHA_512, f"nobody{number}", b"secret", like)
        assert fake.iterations == 8192
        assert re.fullmatch(shape, fake.salt)
        salts.add(fake.salt)
    assert len(salts) == 50


def test_a_credential_is_not_shown() -> None:
    assert "pencil" not in repr(credential(ScramMechanism.SHA_256, "pencil", b"salt"))
