"""What holds for every page: headers, tokens, names, read-only, clusters, and a cluster that is not there."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from moldau.console.application import HEADERS
from moldau.console.routes import ROUTES
from moldau.console.settings import ClusterSettings, ConsoleSettings
from moldau.testing import Broker
from moldau.web.server import ListenerOptions
from tests.console.conftest import Browser, running_console

READS = [route.path for route in ROUTES if route.method == "GET" and "stream" not in route.handler.__name__]


@pytest.mark.slow
def test_every_answer_forbids_what_is_not_the_consoles(console: Any, broker: Broker) -> None:
    broker.create_topic("t")
    for path in READS:
        address = path.replace("{cluster}", "local").replace("{topic}", "t").replace("{name}", "console.js")
        answer = console.http.get(address)
        assert answer.status_code < 503, path
        for name, value in HEADERS.items():
            assert answer.headers[name] == value, path
        assert "style=" not in answer.text
        assert answer.text.count("<script") in (0, 1), path
        assert "http://" not in answer.text.replace("http://www.w3.org", ""), path
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


@pytest.mark.slow
def test_forms_need_their_token(console: Any, broker: Broker) -> None:
    broker.create_topic("t")
    other = Browser(console.url)
    foreign = other.get("/topics/t").token
    for token in ("", "x", foreign):
        answer = console.http.post("/c/local/topics/t/delete", data={"token": token, "name": "t"})
        assert answer.status_code == 403
    token = console.get("/topics/t").token
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        form = {"token": token, "name": "t"}
        answer = console.http.post("/c/local/topics/t/delete", data=form, headers=headers)
        assert answer.status_code == 403
    answer = console.http.post("/c/local/topics/t/delete", json={"token": token, "name": "t"})
    assert answer.status_code == 415
    assert broker.topics() == ["t"]
    other.http.close()


def test_cookies_are_not_for_scripts(console: Any) -> None:
    answer = httpx.get(f"{console.url}/c/local/topics", trust_env=False, timeout=60)
    assert "HttpOnly; SameSite=Lax" in answer.headers["set-cookie"]


@pytest.mark.slow
def test_only_its_own_names_are_answered(console: Any) -> None:
    """A foreign page whose name leads to this machine (DNS rebinding) sees nothing."""
    for host in ("evil.example", "127.0.0.1.evil.example", "", "[::1", "evil@127.0.0.2"):
        address = f"{console.url}/c/local/topics"
        answer = httpx.get(address, headers={"Host": host}, trust_env=False, timeout=60)
        assert answer.status_code in (400, 403), host
    for host in ("localhost:1", "127.0.0.1", "[::1]:8080"):
        answer = httpx.get(f"{console.url}/healthz", headers={"Host": host}, trust_env=False, timeout=60)
        assert answer.status_code == 200, host


@pytest.mark.slow
def test_read_only_changes_nothing(make_console: Callable[..., Any], broker: Broker) -> None:
    broker.produce("t", b"x")
    console = make_console(read_only=True)
    token = console.get("/access").text  # no form has a token there; the session's own is asked for below
    assert "Add a permission" not in token
    for route in ROUTES:
        if route.method == "POST" and "{cluster}" in route.path:
            address = route.path.replace("{cluster}", "local").replace("{topic}", "t")
            assert console.http.post(address, data={"token": "x", "name": "t"}).status_code == 403
    assert "New topic" not in console.get("/topics").words
    assert "Produce" not in console.get("/topics/t/messages").words
    assert "read-only" in console.get("/topics").words


def test_a_refresh_takes_no_message_away(console: Any, broker: Broker) -> None:
    broker.create_topic("t")
    form = {"token": console.get("/topics/t").token, "partitions": "2"}
    console.http.post("/c/local/topics/t/partitions", data=form, follow_redirects=False)
    again = console.http.get("/c/local/topics", headers={"X-Moldau-Refresh": "1"})
    assert "t has 2 partitions now" not in again.text
    assert "t has 2 partitions now" in console.get("/topics/t").words
    assert "t has 2 partitions now" not in console.get("/topics/t").words


def test_several_clusters_and_one_that_is_away(broker: Broker) -> None:
    settings = ConsoleSettings(
        (ClusterSettings("here", broker.bootstrap_servers), ClusterSettings("away", "127.0.0.1:1")),
        ListenerOptions(stop_timeout_seconds=2),
    )
    with running_console(settings) as url:
        browser = Browser(url, "here")
        broker.create_topic("t")
        assert browser.http.get("/").url.path == "/c/here"
        page = browser.get("/topics")
        assert 'href="/c/away"' in page.text
        away = browser.http.get("/c/away/topics")
        assert away.status_code == 502
        assert "See whether the brokers run" in away.text
        assert "data-retry" in away.text, "the page asks again by itself, as it says"
        assert browser.http.get("/c/nowhere/topics").status_code == 404
        assert browser.get("/topics").status == 200
        browser.http.close()


@pytest.mark.parametrize("path", ["/nowhere", "/c/local/nowhere", "/assets/../server.py", "/assets/x.js"])
def test_what_is_not_there(console: Any, path: str) -> None:
    answer = console.http.get(path)
    assert answer.status_code == 404
    assert "This did not work" in answer.text


def test_assets_are_asked_for_once(console: Any) -> None:
    first = console.http.get("/assets/console.css")
    again = console.http.get("/assets/console.css", headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")


def test_what_is_typed_in_lines_comes_back_as_it_was(console: Browser) -> None:
    """Browsers send the ends of lines as two characters."""
    page = console.post("/sql", statement="SELECT a\r\nFROM nowhere;")
    assert page.status == 400
    assert ">SELECT a\nFROM nowhere;</textarea>" in page.text
