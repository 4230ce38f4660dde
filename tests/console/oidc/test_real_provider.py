"""Logins at a real OpenID Connect provider (npm oidc-provider), with a broker that takes its tokens."""

import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from moldau.console.oidc.settings import OidcSettings
from moldau.testing import Broker
from moldau.web.server import ListenerOptions
from tests.shared.ports import free_port

_PACKAGE = "oidc-provider@9"
_BEARER = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("npm") is None or shutil.which("node") is None,
        reason="node and npm are missing: apt-get install nodejs npm",
    ),
]


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """Its address, and the port that the console has to have: the provider knows the address to return to."""
    home = tmp_path_factory.mktemp("oidc")
    fetched = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(home), _PACKAGE],
        capture_output=True,
        text=True,
        timeout=300,
    )
    if fetched.returncode != 0:
        pytest.skip(f"{_PACKAGE} cannot be fetched: {fetched.stderr[-200:]}")
    script = Path(shutil.copy(Path(__file__).with_name("oidc_provider.mjs"), home))
    port = free_port()
    process = subprocess.Popen(
        ["node", str(script), f"http://127.0.0.1:{port}/login/callback"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = next(each for each in process.stdout if each.startswith("port "))
        yield f"http://127.0.0.1:{line.split()[1]}", port
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def secured(provider: tuple[str, int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with the provider's keys; ann may see the topic orders, and nobody else anything."""
    issuer, _ = provider
    with urllib.request.urlopen(f"{issuer}/jwks", timeout=30) as answer:
        keys = tmp_path_factory.mktemp("keys") / "jwks.json"
        keys.write_bytes(answer.read())
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.issuer": issuer,
        "sasl.oauthbearer.expected.audience": "kafka",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:root;User:ANONYMOUS",
    }
    with Broker(settings) as broker:
        yield broker


def become(issuer: str, who: str, *roles: str) -> None:
    httpx.get(f"{issuer}/become", params={"who": who, "role": list(roles)}, trust_env=False)


@pytest.fixture
def open_console(
    make_console: Callable[..., Any], secured: Broker, provider: tuple[str, int]
) -> Callable[..., Any]:
    issuer, port = provider

    def make(**options: Any) -> Any:
        roles: dict[str, Any] = {
            "role_claim": "roles",
            "viewers": ("viewer",),
            "editors": ("editor",),
        }
        oidc = OidcSettings(issuer, "console", options.pop("secret", "secret-of-the-console"), **roles)
        listener = ListenerOptions(port=port, stop_timeout_seconds=2)
        return make_console(broker=secured, client=_BEARER, login=True, oidc=oidc, listener=listener)

    return make


def test_a_walk_through_the_provider(open_console: Any, provider: tuple[str, int]) -> None:
    issuer, _ = provider
    console = open_console()
    become(issuer, "ann", "viewer")
    page = console.get("/topics")
    assert page.response.url.path == "/login"
    assert "password" not in page.text
    before = dict(console.http.cookies)
    inside = console.http.get("/login/provider", params={"next": "/c/local/topics?q=x"})
    assert (inside.status_code, inside.url.path) == (200, "/c/local/topics"), inside.text
    assert "ann" in inside.text
    assert "read-only" in inside.text
    (name,) = before
    assert console.http.cookies[name] != before[name], "the session after the login has a new number"
    # A viewer changes nothing, whatever the form.
    token = console.get("/topics").token
    refused = console.http.post("/c/local/new-topic", data={"token": token, "name": "x"})
    assert refused.status_code == 403
    out = console.http.post("/logout", data={"token": token})
    assert out.url.path == "/logged-out"
    assert console.get("/topics").response.url.path == "/login"


def test_an_editor_may_do_what_the_cluster_says(
    open_console: Any, provider: tuple[str, int], secured: Broker
) -> None:
    console = open_console()
    become(provider[0], "bob", "editor")
    assert console.http.get("/login/provider").url.path == "/c/local"
    token = console.get("/topics").token
    made = console.http.post("/c/local/new-topic", data={"token": token, "name": "x", "partitions": "1"})
    assert made.status_code >= 400, "a role gives no right that the cluster does not give"
    assert secured.topics() == []


def test_whoever_has_no_role_stays_outside(open_console: Any, provider: tuple[str, int]) -> None:
    console = open_console()
    become(provider[0], "eve", "other")
    page = console.http.get("/login/provider")
    assert page.status_code == 401
    assert "no role" in page.text
    assert console.get("/topics").response.url.path == "/login"


def test_an_answer_counts_once_and_in_its_own_browser(open_console: Any, provider: tuple[str, int]) -> None:
    console = open_console()
    become(provider[0], "ann", "editor")
    with httpx.Client(base_url=console.url, trust_env=False, follow_redirects=True) as browser:
        inside = browser.get("/login/provider")
        assert inside.url.path == "/c/local"
        (callback,) = [each.url for each in inside.history if each.url.path == "/login/callback"]
        # Again, in the same browser and in another one: the state is used up, or was never its own.
        assert browser.get(callback).status_code == 401
    with httpx.Client(base_url=console.url, trust_env=False) as other:
        assert other.get(callback).status_code == 401


def test_a_console_with_a_wrong_secret(open_console: Any, provider: tuple[str, int]) -> None:
    console = open_console(secret="wrong")
    become(provider[0], "ann", "editor")
    page = console.http.get("/login/provider")
    assert page.status_code == 401
    assert "invalid_client" in page.text
