"""``moldau registry``: from options to a running service and back to the prompt."""

import datetime
import ipaddress
import re
import signal
import ssl
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import click
import httpx
import pytest

from moldau.cli.commands.registry import credentials

READY = re.compile(r"moldau registry ready: (https?://127\.0\.0\.1:\d+) \(0 subjects, topic _schemas\)\n")


@contextmanager
def running(broker, *arguments: str):
    command = [sys.executable, "-m", "moldau", "registry", "--port", "0", "-b", broker.bootstrap_servers]
    process = subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        ready = READY.fullmatch(line)
        assert ready is not None, line + process.communicate(timeout=10)[1]
        yield process, ready[1]
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_starts_answers_and_stops(broker, number):
    with running(broker) as (process, url):
        made = httpx.post(f"{url}/subjects/s/versions", json={"schema": '"string"'}, timeout=30)
        assert made.json()["id"] == 1
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, "moldau registry stopped\n", "")


def test_it_speaks_tls(broker, tmp_path):
    certificate, key = self_signed(tmp_path)
    with running(broker, "--tls-cert", str(certificate), "--tls-key", str(key)) as (_, url):
        assert url.startswith("https://")
        trust = ssl.create_default_context(cafile=str(certificate))
        assert httpx.get(f"{url}/subjects", verify=trust, timeout=30).json() == []


def test_what_does_not_start_says_why(moldau, broker, tmp_path):
    result = moldau("registry", "--port", str(broker.port), code=1)
    assert "Next: choose another --port" in result.stderr
    result = moldau("registry", "--port", "0", "-b", "127.0.0.1:1", code=1)
    assert "nothing listens at 127.0.0.1:1" in result.stderr
    no_certificate = tmp_path / "cert.pem"
    no_certificate.write_text("no certificate")
    result = moldau("registry", "--port", "0", "--tls-cert", str(no_certificate), code=1)
    assert "certificate" in result.stderr
    result = moldau("registry", "--tls-key", str(no_certificate), code=2)
    assert "--tls-cert" in result.stderr
    assert "moldau registry --port 8081" in moldau("registry", "--help").stdout


def test_users_from_options_and_a_file(tmp_path):
    file = tmp_path / "users.txt"
    file.write_text("# people\nbob:pa:ss\n\n")
    assert credentials(("ann:secret",), file) == {"ann": "secret", "bob": "pa:ss"}
    with pytest.raises(click.UsageError) as error:
        credentials(("hunter2",), None)
    assert "hunter2" not in error.value.message
    file.write_text("# nobody\n")
    with pytest.raises(click.UsageError, match="names nobody"):
        credentials((), file)


def self_signed(directory: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1; ``cryptography`` comes with the clients that the tests use."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = directory / "cert.pem", directory / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths
