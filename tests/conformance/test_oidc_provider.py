"""OAUTHBEARER with a real OpenID Connect provider (npm oidc-provider): its keys over https, its tokens."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from moldau.cli.certificates import Authority
from moldau.testing import Broker

_PACKAGE = "oidc-provider@9"
HERE = Path(__file__).parent

pytestmark = pytest.mark.skipif(
    shutil.which("npm") is None, reason="npm is missing: apt-get install nodejs npm"
)


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Authority]]:
    """The addresses of its tokens and of its keys, and the authority that vouches for it."""
    home = tmp_path_factory.mktemp("oidc")
    authority = Authority.create(home / "ca")
    identity = authority.issue("provider", hosts=["127.0.0.1"])
    script = home / "oidc_provider.mjs"
    shutil.copy(HERE / "oidc_provider.mjs", script)
    fetched = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(home), _PACKAGE],
        capture_output=True,
        text=True,
        timeout=300,
    )
    if fetched.returncode != 0:
        pytest.skip(f"{_PACKAGE} cannot be fetched: {fetched.stderr[-200:]}")
    process = subprocess.Popen(
        ["node", str(script), str(identity)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        while line and not line[:1].isdigit():  # it warns about the keys that it makes up
            line = process.stdout.readline()
        plain, secure = line.split()
        yield f"http://127.0.0.1:{plain}/token", f"https://127.0.0.1:{secure}/jwks", authority
    finally:
        process.terminate()
        process.wait(30)


def _settings(jwks: str, **more: str) -> dict[str, str]:
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": jwks,
        "sasl.oauthbearer.expected.issuer": "https://issuer.example",
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.sub.claim.name": "user",
        **more,
    }


def _sent(broker: Broker, tokens: str, secret: str = "secret-of-ada") -> bool:
    """Whether a record of librdkafka arrives, which fetches its token itself."""
    refused: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "ada",
            "sasl.oauthbearer.client.secret": secret,
            "sasl.oauthbearer.token.endpoint.url": tokens,
            "sasl.oauthbearer.scope": "kafka",
            "error_cb": refused.append,
            "log_level": 0,
        }
    )
    delivered: list[object] = []
    producer.produce("orders", b"x", on_delivery=lambda error, _: delivered.append(error))
    for _ in range(300):
        producer.poll(0.1)
        if delivered or any(error.code() == KafkaError._AUTHENTICATION for error in refused):
            break
    producer.purge()
    return delivered == [None]


@pytest.mark.check("librdkafka", "OAUTHBEARER with a real OpenID Connect provider")
def test_tokens_of_a_real_provider(
    provider: tuple[str, str, Authority], monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens, jwks, authority = provider
    monkeypatch.setitem(os.environ, "SSL_CERT_FILE", str(authority.directory / "ca.pem"))
    with Broker(_settings(jwks)) as broker:
        assert _sent(broker, tokens)
        assert not _sent(broker, tokens, "of-somebody-else")
    for wrong in (
        {"sasl.oauthbearer.expected.audience": "another"},
        {"sasl.oauthbearer.expected.issuer": "https://another.example"},
        {"sasl.oauthbearer.sub.claim.name": "nothing"},
    ):
        with Broker(_settings(jwks, **wrong)) as broker:
            assert not _sent(broker, tokens), wrong
