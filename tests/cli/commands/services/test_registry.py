"""``moldau registry``: from options to a running service and back to the prompt."""

import signal
import ssl

import httpx
import pytest

from tests.shared.services import service_process

pytestmark = pytest.mark.slow

READY = r"^moldau registry ready: (https?://127\.0\.0\.1:\d+) \(0 subjects, topic _schemas\)\n"


def running(*arguments: str):
    return service_process("registry", "--port", "0", *arguments, ready=READY)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_starts_answers_and_stops(broker, number):
    with running("-b", broker.bootstrap_servers) as (process, url):
        made = httpx.post(f"{url}/subjects/s/versions", json={"schema": '"string"'}, timeout=30)
        assert made.json()["id"] == 1
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, "moldau registry stopped\n", "")


def test_it_speaks_tls_and_asks_for_certificates(broker, tls_files):
    file = {name: str(tls_files / name) for name in ("server.pem", "server.key", "client.pem", "client.key")}
    options = ("--tls-cert", file["server.pem"], "--tls-key", file["server.key"])
    with running("-b", broker.bootstrap_servers, *options, "--tls-client-ca", file["client.pem"]) as (_, url):
        assert url.startswith("https://")
        trust = ssl.create_default_context(cafile=file["server.pem"])
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{url}/subjects", verify=trust, timeout=30)
        trust.load_cert_chain(file["client.pem"], file["client.key"])
        assert httpx.get(f"{url}/subjects", verify=trust, timeout=30).json() == []


def test_a_cluster_with_tls_and_a_login(secured):
    """The settings of Confluent's registry: the client's own, behind ``kafkastore.``."""
    properties = [f"-Xkafkastore.{name}={value}" for name, value in secured.settings.items()]
    address = f"-Xkafkastore.bootstrap.servers=SASL_SSL://{secured.address}"
    with running(address, *properties) as (_, url):
        made = httpx.post(f"{url}/subjects/s/versions", json={"schema": '"string"'}, timeout=30)
        assert made.json()["id"] == 1
    secured.broker.reset()
    plain = ("-b", secured.address, "--command-config", str(secured.config_file))
    with running(*plain) as (_, url):
        assert httpx.get(f"{url}/subjects", timeout=30).json() == []


def test_a_login_that_is_refused(moldau, secured):
    options = ("--port", "0", "-b", secured.address, "--command-config", str(secured.config_file))
    result = moldau("registry", *options, "-X", "kafkastore.sasl.username=eve", code=1)
    assert "no login at" in result.stderr
    assert "Next: give the security settings" in result.stderr
    result = moldau("registry", "-X", "kafkastore.security.protocol=TLS", code=2)
    assert "security.protocol is one of" in result.stderr


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
    assert "--tls-client-ca" in moldau("registry", "--tls-client-ca", str(no_certificate), code=2).stderr
    assert "moldau registry --port 8081" in moldau("registry", "--help").stdout
