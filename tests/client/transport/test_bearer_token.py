"""Tokens from a provider that is a small web server of this test."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest

from moldau.client.transport.bearer_token import fetched_token
from moldau.client.transport.security import Security
from moldau.security.sasl.client import Credentials, SaslFailed


class Provider(HTTPServer):
    asked: list[tuple[str | None, dict[str, list[str]]]]
    answer: tuple[int, bytes]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server: Any = self.server
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        server.asked.append((self.headers["Authorization"], parse_qs(body)))
        status, content = server.answer
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing to say."""


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(("127.0.0.1", 0), _Handler) as server:
        server.asked, server.answer = (
            [],
            (200, json.dumps({"access_token": "t1", "expires_in": 3600}).encode()),
        )
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _credentials(provider: Provider, **more: str) -> Credentials:
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{provider.server_port}/token",
        "sasl.oauthbearer.client.credentials.client.id": "ada",
        "sasl.oauthbearer.client.credentials.client.secret": "s:1",
        "sasl.oauthbearer.scope": "orders:read orders:write",
    }
    return Security.of(settings | more).credentials


def test_a_token_is_fetched_once_for_its_scope(provider: Provider) -> None:
    credentials = _credentials(provider)
    assert [fetched_token(credentials) for _ in range(3)] == ["t1"] * 3
    form = {"grant_type": ["client_credentials"], "scope": ["orders:read orders:write"]}
    assert provider.asked == [("Basic YWRhOnMlM0Ex", form)]


def test_a_token_that_ends_is_fetched_again(provider: Provider) -> None:
    provider.answer = (200, b'{"access_token": "short", "expires_in": 5}')
    credentials = _credentials(provider)
    fetched_token(credentials)
    fetched_token(credentials)
    assert len(provider.asked) == 2


@pytest.mark.parametrize(
    "answer", [(401, b"s:1"), (302, b""), (200, b"no json s:1"), (200, b"[]"), (200, b'{"access_token": ""}')]
)
def test_without_a_token_nothing_is_told(provider: Provider, answer: tuple[int, bytes]) -> None:
    provider.answer = answer
    with pytest.raises(SaslFailed, match="gave no token") as caught:
        fetched_token(_credentials(provider))
    assert "s:1" not in str(caught.value)
    assert len(provider.asked) == 1


def test_a_secret_goes_nowhere_in_the_clear() -> None:
    settings = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    line = 'x.OAuthBearerLoginModule required clientId="a" clientSecret="b" scope="c";'
    url = "http://example.com/token"
    older = Security.of(settings | {"sasl.jaas.config": line, "sasl.oauthbearer.token.endpoint.url": url})
    assert (older.credentials.username, older.credentials.scope) == ("a", "c")
    for wrong in (url, "file:///etc/passwd", "ftp://localhost/x"):
        with pytest.raises(SaslFailed, match="must be an https"):
            fetched_token(Credentials("a", "b", token_url=wrong))
