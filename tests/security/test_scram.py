"""SCRAM's arithmetic."""

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


def test_a_credential_is_not_shown() -> None:
    assert "pencil" not in repr(credential(ScramMechanism.SHA_256, "pencil", b"salt"))
