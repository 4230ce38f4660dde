"""A real uvicorn: TLS, client certificates, stopping in good order."""

import asyncio
import logging
import socket
import ssl
import threading

import httpx
import pytest

from moldau.web import server
from moldau.web.application import Application
from moldau.web.authentication import BasicAuthentication
from moldau.web.routes import Route
from moldau.web.server import Listener, ListenerOptions, OpenToNetwork, _guard_open_listener
from moldau.web.tls import TlsOptions


def trusting(tls_files, *, show=None):
    context = ssl.create_default_context(cafile=str(tls_files / "server.pem"))
    if show is not None:
        context.load_cert_chain(tls_files / f"{show}.pem", tls_files / f"{show}.key")
    return context


@pytest.mark.slow
def test_tls_and_basic_authentication(run_service, tls_files):
    tls = TlsOptions(tls_files / "server.pem", tls_files / "server.key")
    basic = BasicAuthentication({"ann": "secret"}, "test")
    with run_service(listener={"tls": tls}, authenticate=basic) as serving:
        assert serving.url.startswith("https://127.0.0.1:")
        with serving.client(verify=trusting(tls_files), auth=("ann", "secret")) as http:
            assert http.get("/people/x").json()["by"] == "ann"
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(f"{serving.url}/text", trust_env=False)
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{serving.url}/text".replace("https", "http"), trust_env=False)


def test_certificates_of_clients(run_service, tls_files):
    tls = TlsOptions(tls_files / "server.pem", tls_files / "server.key", tls_files / "client.pem")
    with run_service(listener={"tls": tls}) as serving:
        with serving.client(verify=trusting(tls_files, show="client")) as http:
            assert http.get("/text").status_code == 200
        for show in (None, "server"):
            with pytest.raises(httpx.HTTPError):
                httpx.get(f"{serving.url}/text", verify=trusting(tls_files, show=show), trust_env=False)


def test_files_that_cannot_be_used(tmp_path):
    (tmp_path / "no.pem").write_text("no certificate")
    with pytest.raises(ssl.SSLError):
        Listener(ListenerOptions(tls=TlsOptions(tmp_path / "no.pem")))


def test_answers_are_sent_at_once():
    """An answer leaves in two parts; without this the second one waited for the client's acknowledgement."""
    with Listener(ListenerOptions()) as listener:
        address = ("127.0.0.1", listener.port)
        with socket.create_connection(address), listener.socket.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


def test_addresses():
    with Listener(ListenerOptions()) as listener:
        assert (listener.url, listener.advertised_host) == (f"http://127.0.0.1:{listener.port}", "127.0.0.1")
        with pytest.raises(OSError, match="in use"):
            Listener(ListenerOptions(port=listener.port))
    with Listener(ListenerOptions("0.0.0.0")) as listener:
        assert listener.advertised_host == socket.gethostname()
    with Listener(ListenerOptions("0.0.0.0", advertised_host="books.example.com")) as listener:
        assert listener.advertised_host == "books.example.com"


@pytest.mark.parametrize(
    ("host", "users", "client_ca", "refused"),
    [
        ("127.0.0.1", False, False, False),
        ("localhost", False, False, False),
        ("0.0.0.0", False, False, True),
        ("0.0.0.0", True, False, False),
        ("0.0.0.0", False, True, False),
    ],
)
def test_a_listener_that_is_open_to_the_network(
    test_service, tls_files, caplog, host, users, client_ca, refused
):
    basic = {"authenticate": BasicAuthentication({"a": "b"}, "x")} if users else {}
    ca = tls_files / "client.pem" if client_ca else None
    tls = TlsOptions(tls_files / "server.pem", tls_files / "server.key", ca)
    application = Application(test_service(), **basic)
    with Listener(ListenerOptions(host, tls=tls)) as listener:
        if refused:
            with pytest.raises(OpenToNetwork, match="say --open if that is meant"):
                _guard_open_listener(application, listener)
        else:
            _guard_open_listener(application, listener)
    with Listener(ListenerOptions(host, tls=tls, is_open=True)) as listener, caplog.at_level(logging.WARNING):
        _guard_open_listener(application, listener)
    assert ("open to the network" in caplog.text) is refused


_REQUEST = b"GET /text HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(("before", "sent"), [(b"", b""), (b"", _REQUEST[:20]), (_REQUEST, _REQUEST[:20])])
def test_a_request_that_does_not_get_to_the_end_of_its_headers(run_service, monkeypatch, before, sent):
    monkeypatch.setattr(server, "_HEADERS_SECONDS", 0.05)
    with run_service() as serving:
        host, _, port = serving.url.rpartition("/")[2].partition(":")
        with socket.create_connection((host, int(port)), timeout=60) as wire:
            wire.sendall(before)
            found = b""
            while before and b"as it is" not in found:
                found += wire.recv(1000)
            wire.sendall(sent)
            assert wire.recv(1000) == b""


def waiting_route():
    begun, go = threading.Event(), asyncio.Event()

    async def wait(call):
        begun.set()
        await go.wait()
        return "done"

    return begun, go, Route("GET", "/wait", wait, "Wait")


@pytest.mark.slow
def test_what_is_in_flight_finishes_and_nothing_new_begins(run_service):
    begun, go, route = waiting_route()
    answers = []
    with run_service(route) as serving, serving.client() as http, serving.client() as idle:
        assert idle.get("/text").status_code == 200
        thread = threading.Thread(target=lambda: answers.append(http.get("/wait").json()))
        thread.start()
        assert begun.wait(5)
        serving.stop()
        for _ in range(100):
            try:
                httpx.get(f"{serving.url}/text", trust_env=False)
            except httpx.HTTPError:
                break  # refused
            threading.Event().wait(0.05)
        else:
            pytest.fail("it still listens")
        with pytest.raises(httpx.HTTPError):
            idle.get("/text")  # neither on a connection that was open
        serving.loop.call_soon_threadsafe(go.set)
        thread.join(10)
    assert answers == ["done"]


def test_stopping_takes_a_bounded_time(run_service):
    begun, _, route = waiting_route()
    ends = []

    def ask(http):
        try:
            ends.append(http.get("/wait").status_code)
        except httpx.HTTPError:
            ends.append(None)

    with run_service(route, listener={"stop_timeout_seconds": 1}) as serving, serving.client() as http:
        thread = threading.Thread(target=ask, args=(http,))
        thread.start()
        assert begun.wait(5)
        serving.stop()
        thread.join(10)
    assert ends in ([None], [500])


def test_a_port_that_is_taken_may_be_another_one():
    with Listener(ListenerOptions()) as first:
        with pytest.raises(OSError, match="in use"):
            Listener(ListenerOptions(port=first.port))
        with Listener(ListenerOptions(port=first.port, or_free_port=True)) as second:
            assert second.port != first.port
