"""Certificates and keys in the forms that Kafka's settings know."""

import ssl
from pathlib import Path

import pytest

from moldau.cli.certificates import Authority
from moldau.security.tls import KeyMaterial, LiveContext, from_pem, load_identity, read_store


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority.create(tmp_path_factory.mktemp("ca"))
    authority.issue("one")
    return authority


@pytest.mark.slow
def test_one_key_in_every_form(authority: Authority) -> None:
    pem = read_store(str(authority.directory / "one.pem"), "PEM", None)
    assert read_store(str(authority.directory / "one.p12"), "PKCS12", authority.password) == pem
    load_identity(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), pem, "")


def test_a_text_on_one_line(authority: Authority) -> None:
    text = (authority.directory / "one.pem").read_text()
    assert from_pem(text.replace("\n", "\\n")) == from_pem(text)


def test_errors_name_the_file_and_no_secret(authority: Authority, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_store(str(tmp_path / "none.p12"), "PKCS12", "hunter2")
    with pytest.raises(ValueError, match="check its type and its password") as raised:
        read_store(str(authority.directory / "one.p12"), "PKCS12", "hunter2")
    assert "hunter2" not in str(raised.value)
    with pytest.raises(ValueError, match="cannot be used"):
        load_identity(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), KeyMaterial("x", "y"), "")
    assert "BEGIN" not in repr(read_store(str(authority.directory / "one.pem"), "PEM", None))


def test_a_live_context_makes_connections_with_the_current_one() -> None:
    first, second = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    live = LiveContext.around(first)
    assert live.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True).context is first
    live.current = second
    assert live.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True).context is second
