"""Two instances: one leads, the other sends requests on."""

import asyncio
import socket
from contextlib import contextmanager

import httpx
import pytest

from moldau.web import forwarding
from moldau.web.application import Application
from moldau.web.authentication import BasicAuthentication
from moldau.web.forwarding import Forwarding
from moldau.web.problems import Problem
from moldau.web.routes import Route, flag
from moldau.web.tls import TlsOptions

pytestmark = pytest.mark.slow


class Elsewhere(Exception):
    """What a handler raises where another instance decides; its text is the address."""


def where(error):
    return str(error) if isinstance(error, Elsewhere) else None


def forwards(tls=None):
    return Forwarding(
        where,
        unknown_leader=lambda: Problem(50004, 500, "no leader"),
        failed=lambda why: Problem(50003, 500, f"not forwarded: {why}"),
        tls=tls,
    )


@pytest.fixture
def follower(run_application, test_service):
    """Runs an instance that says that ``leader`` (a list of addresses, the last one stays) decides."""

    @contextmanager
    def run(leaders, tls=None, **options):
        async def write(call):
            url = leaders[0] if len(leaders) == 1 else leaders.pop(0)
            if url == "here":
                return "written here"
            raise Elsewhere(url)

        route = Route("POST", "/write/{name}", write, "Write", (flag("now"),))
        with (
            run_application(
                lambda: Application(test_service(route), forwarding=forwards(tls), **options)
            ) as serving,
            serving.client() as http,
        ):
            yield http

    return run


@pytest.fixture
def leader(run_service):
    async def write(call):
        body, request = await call.raw_body(), call.request
        return {
            "name": call.parameters["name"],
            "now": call.flag("now"),
            "body": body.decode(),
            "by": call.principal.name,
            "id": call.request_id,
            "mark": request.headers.get("x-forward"),
        }

    route = Route("POST", "/write/{name}", write, "Write", (flag("now"),), status=202)
    return lambda **options: run_service(route, **options)


def test_a_request_is_sent_on_as_it_is(leader, follower):
    basic = BasicAuthentication({"ann": "secret"}, "x")
    with leader(authenticate=basic) as serving, follower([serving.url], authenticate=basic) as http:
        answer = http.post(
            "/write/a%2Fb?now=true", content=b"{}", auth=("ann", "secret"), headers={"X-Request-Id": "r1"}
        )
        assert answer.status_code == 202
        assert answer.headers["x-request-id"] == "r1"
        assert answer.json() == {
            "name": "a/b", "now": True, "body": "{}", "by": "ann", "id": "r1", "mark": "true",
        }  # fmt: skip


def test_a_request_that_was_sent_on_is_not_sent_on_again(leader, follower):
    with leader() as serving, follower([serving.url]) as http:
        answer = http.post("/write/a", headers={"X-Forward": "true"})
        assert (answer.status_code, answer.json()["error_code"]) == (500, 50004)


def test_who_leads_is_asked_again_when_nobody_took_it(leader, follower, monkeypatch):
    monkeypatch.setattr(forwarding, "_AGAIN_SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        gone = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with follower(["http://127.0.0.1:1"]) as not_leading:  # it answers that it does not lead
        not_leader = str(not_leading.base_url).rstrip("/")
        with leader() as serving, follower([gone, not_leader, serving.url]) as http:
            assert http.post("/write/a").json()["name"] == "a"
        with follower([gone, "here"]) as http:
            assert http.post("/write/a").json() == "written here"


def test_many_requests_wait_at_the_leader_at_the_same_time(run_service, follower):
    waiting, all_there = [], asyncio.Event()

    async def wait(call):
        waiting.append(call)
        if len(waiting) == 120:
            all_there.set()
        await all_there.wait()
        return "done"

    async def ask(url):
        async with httpx.AsyncClient(
            base_url=url, timeout=120, limits=httpx.Limits(), trust_env=False
        ) as http:
            return await asyncio.gather(*(http.post("/write/a") for _ in range(120)))

    with (
        run_service(Route("POST", "/write/{name}", wait, "Write")) as serving,
        follower([serving.url]) as http,
    ):
        answers = asyncio.run(ask(str(http.base_url)))
    assert {each.status_code for each in answers} == {200}, answers[-1].text


def test_it_ends_when_nobody_leads(follower, monkeypatch):
    monkeypatch.setattr(forwarding, "_AGAIN_SECONDS", 0.001)
    monkeypatch.setattr(forwarding, "_ATTEMPTS", 3)
    with follower(["http://127.0.0.1:1"]) as http:
        assert http.post("/write/a").json() == {"error_code": 50004, "message": "no leader"}


def test_a_leader_that_answers_no_http(follower):
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        import threading

        def hang_up():
            deaf.accept()[0].close()

        threading.Thread(target=hang_up, daemon=True).start()
        with follower([f"http://127.0.0.1:{deaf.getsockname()[1]}"]) as http:
            answer = http.post("/write/a").json()
    assert answer["error_code"] == 50003


def test_leaders_with_tls(leader, follower, tls_files):
    tls = TlsOptions(tls_files / "server.pem", tls_files / "server.key")
    with leader(listener={"tls": tls}) as serving:
        assert serving.url.startswith("https://")
        with follower([serving.url], tls=tls.client_context()) as http:
            assert http.post("/write/a").json()["name"] == "a"
        with follower([serving.url]) as http:
            answer = http.post("/write/a").json()
            assert answer["error_code"] == 50003
            assert "CERTIFICATE_VERIFY_FAILED" in answer["message"]
