"""An application over real sockets: answers, problems, limits, ids, the access log."""

import asyncio
import logging
import re
import socket
import threading

import pytest

from moldau.web.application import Application, Service
from moldau.web.authentication import BasicAuthentication
from moldau.web.limits import Limits
from moldau.web.openapi import Description
from moldau.web.problems import Problem
from moldau.web.routes import Route, RouteTable, Streamed
from tests.shared.waiting import wait_until


@pytest.fixture
def http(run_service):
    with run_service() as serving, serving.client() as client:
        yield client


def problem(response):
    assert set(response.json()) == {"error_code", "message"}
    return response.status_code, response.json()["error_code"]


def test_answers(http):
    found = http.get("/people/a%2Fb", params={"loud": "TRUE"})
    assert (found.status_code, found.headers["content-type"]) == (200, "application/json")
    assert found.json() == {"hello": "a/b", "loud": True, "by": "ANONYMOUS"}
    made = http.post("/echo", content=b'{"x":"\\ud83d"}')
    assert (made.status_code, made.json(), made.headers["location"]) == (201, {"x": "\ud83d"}, "/echo/1")
    assert http.get("/text").text == "as it is"
    gone = http.delete("/text")
    assert (gone.status_code, gone.content) == (204, b"")
    assert http.get("/numbers", params={"offset": 2, "limit": 3}).json() == [2, 3, 4]
    assert http.get("/numbers", params={"offset": "", "limit": -1}).json() == list(range(10))
    assert http.get("/openapi.json").json()["info"]["title"] == "Test"


def test_problems(http, caplog):
    found = http.get("/people/nobody")
    assert (problem(found), found.headers["x-why"]) == ((404, 40401), "nobody")
    assert problem(http.get("/nowhere")) == (404, 404)
    assert problem(http.put("/text")) == (405, 405)
    assert problem(http.get("/text", headers={"accept": "text/html"})) == (406, 406)
    assert problem(http.post("/echo", content=b"x", headers={"content-type": "text/x"})) == (415, 415)
    for wrong in (b"{", b"[]", b"[" * 100_000):
        assert problem(http.post("/echo", content=wrong)) == (400, 400)
    assert problem(http.get("/numbers", params={"offset": "x"})) == (400, 400)
    broken = http.get("/broken", headers={"X-Request-Id": "r-1"})
    assert problem(broken) == (500, 500)
    assert "bug" not in broken.text
    assert "request r-1 failed" in caplog.text
    (logged,) = [each for each in caplog.records if each.exc_info]
    assert repr(logged.exc_info[1]) == "RuntimeError('a bug')"


def test_a_parameter_that_the_route_does_not_declare_is_a_bug(run_service, caplog):
    async def reads_more(call):
        return call.text("undeclared")

    with run_service(Route("GET", "/more", reads_more, "More")) as serving, serving.client() as http:
        assert http.get("/more").status_code == 500
    assert "the route does not declare undeclared" in caplog.text


def test_a_style_of_its_own(run_application, test_service):
    def make():
        service = test_service()
        style = lambda problem: {"type": "about:blank", "title": problem.message}  # noqa: E731
        return Application(Service(service.description, service.table, problem_style=style))

    with run_application(make) as serving, serving.client() as http:
        assert http.get("/people/nobody").json() == {"type": "about:blank", "title": "There is nobody"}


def test_users(run_service):
    basic = BasicAuthentication({"ann": "secret"}, "test")
    with run_service(authenticate=basic) as serving, serving.client() as http:
        refused = http.get("/people/x")
        assert (problem(refused), refused.headers["www-authenticate"]) == ((401, 401), 'Basic realm="test"')
        assert http.get("/openapi.json").status_code == 401
        assert http.get("/people/x", auth=("ann", "secret")).json()["by"] == "ann"


def test_an_authenticator_of_its_own(run_service):
    async def forbid(request):
        raise Problem(40301, 403, "Not you")

    with run_service(authenticate=forbid) as serving, serving.client() as http:
        assert problem(http.get("/text")) == (403, 40301)


def test_bodies_and_headers_are_bounded(run_service):
    limits = Limits(max_body_bytes=1000, max_header_bytes=2000)
    with run_service(limits=limits) as serving:
        for content in (b"x" * 1001, (b"x" * 600 for _ in range(2))):
            with serving.client() as http:
                assert problem(http.post("/echo", content=content)) == (413, 413)
        with serving.client() as http:
            assert problem(http.get("/text", headers={"x-long": "x" * 2000})) == (431, 431)
            assert http.get("/text", headers={"x-long": "x" * 1000}).status_code == 200
        host, port = serving.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as endless:
            endless.sendall(b"GET /text HTTP/1.1\r\nx: " + b"x" * 20_000)
            assert endless.recv(100).startswith(b"HTTP/1.1 400 ")  # no need to wait for their end


def sent(serving, data: bytes, *, hang_up: bool = False) -> bytes:
    """All that comes back until the connection is closed."""
    host, port = serving.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(data)
        if hang_up:
            return b""
        return b"".join(iter(lambda: connection.recv(65_536), b""))


POST = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def test_a_body_over_the_limit_closes_the_connection(run_service):
    with run_service(limits=Limits(max_body_bytes=1000)) as serving:
        # recv ends only because the service closes: none of these bodies comes to its end
        for request in (
            POST + b"Content-Length: 5000000\r\n\r\n" + b"x" * 4001,
            POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"fff\r\n" + b"x" * 4001,
        ):
            answer = sent(serving, request)
            assert b" 413 " in answer.partition(b"\r\n")[0]
            assert b"connection: close" in answer
        elsewhere = POST.replace(b"/echo", b"/nowhere") + b"Content-Length: 5000000\r\n\r\nx"
        assert b" 404 " in sent(serving, elsewhere).partition(b"\r\n")[0]
        with serving.client() as http:
            assert http.post("/echo", content=b"x" * 3000).status_code == 413
            assert http.get("/text").text == "as it is"


def test_a_client_that_hangs_up_in_a_body_is_no_error(run_service, caplog):
    with run_service() as serving, serving.client() as http, caplog.at_level(logging.INFO):
        for request in (
            POST + b'Content-Length: 100\r\n\r\n{"a',
            POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
            POST + b"Expect: 100-continue\r\nContent-Length: 100\r\n\r\n",
        ):
            sent(serving, request, hang_up=True)
        wait_until(lambda: sum(" 400 " in each.getMessage() for each in caplog.records) == 3)
        assert http.get("/text").status_code == 200
    assert [each for each in caplog.records if each.levelno > logging.INFO or each.exc_info] == []


@pytest.mark.slow
def test_a_request_takes_no_longer_than_it_may(run_service):
    async def slow(call):
        await asyncio.Event().wait()

    never = threading.Event()

    def unfinished():
        yield b"{"
        never.wait(5)

    limits = Limits(request_timeout_ms=100)
    with run_service(Route("GET", "/slow", slow, "Slow"), limits=limits) as serving:
        with serving.client() as http:
            found = http.get("/slow")
            assert problem(found) == (503, 503)
            assert found.json()["message"] == "The request could not be answered in 0.1 s"
        with serving.client() as http:
            found = http.post("/echo", content=unfinished())
            never.set()
            assert problem(found) == (408, 408)


def test_a_timeout_of_the_handler_itself_is_a_bug(run_service, caplog):
    async def impatient(call):
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    with run_service(Route("GET", "/slow", impatient, "Slow")) as serving, serving.client() as http:
        assert problem(http.get("/slow")) == (500, 500)
    assert "TimeoutError" in caplog.text


def test_not_too_many_at_the_same_time(run_service):
    begun, go = threading.Event(), asyncio.Event()

    async def wait(call):
        begun.set()
        await go.wait()
        return "done"

    answers = []
    limits = Limits(max_concurrent_requests=1)
    waiting = run_service(Route("GET", "/wait", wait, "Wait"), limits=limits)
    with waiting as serving, serving.client() as one, serving.client() as other:
        thread = threading.Thread(target=lambda: answers.append(one.get("/wait").json()))
        thread.start()
        assert begun.wait(5)
        assert problem(other.get("/text")) == (503, 503)
        serving.loop.call_soon_threadsafe(go.set)
        thread.join(5)
        assert other.get("/text").status_code == 200
    assert answers == ["done"]


def test_request_ids_and_the_access_log(run_service, caplog):
    basic = BasicAuthentication({"ann": "pass-word"}, "test")
    caplog.set_level(logging.INFO, "moldau.web.access")
    with run_service(authenticate=basic) as serving, serving.client() as http:
        given = http.get("/people/a%20b?loud=1", auth=("ann", "pass-word"), headers={"X-Request-Id": "abc-1"})
        made = http.get("/people/nobody", headers={"X-Request-Id": "not legal"})
    assert given.headers["x-request-id"] == "abc-1"
    assert re.fullmatch("[0-9a-f]{12}-1", made.headers["x-request-id"])
    lines = [record.getMessage() for record in caplog.records if record.name == "moldau.web.access"]
    assert re.fullmatch(
        r'127\.0\.0\.1 ann "GET /people/a%20b" 200 \d+ bytes \d+\.\d ms id=abc-1', lines[0]
    ), lines
    assert lines[1].startswith('127.0.0.1 ANONYMOUS "GET /people/nobody" 401 ')
    assert "pass-word" not in caplog.text
    assert "loud" not in caplog.text


def test_the_life_of_an_asgi_application():
    sent = []
    events = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

    async def receive():
        return next(events)

    async def send(message):
        sent.append(message["type"])

    application = Application(Service(Description("T", "1"), RouteTable(())))
    asyncio.run(application({"type": "lifespan"}, receive, send))
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_an_answer_in_pieces(run_service):
    async def count(call):
        async def parts():
            for number in range(3):
                yield b"%d\n" % number

        return Streamed(parts(), "text/event-stream", (("X-Kind", "numbers"),))

    with run_service(Route("GET", "/count", count, "Count")) as serving, serving.client() as http:
        answer = http.get("/count")
    assert (answer.text, answer.headers["x-kind"]) == ("0\n1\n2\n", "numbers")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-request-id"]


def test_a_body_that_is_answered_while_it_comes(run_service):
    async def upper(call):
        async def parts():
            async for part in call.body_parts():
                yield part.upper()

        return Streamed(parts(), reads_body=True)

    with run_service(Route("POST", "/upper", upper, "Upper")) as serving, serving.client() as http:
        assert http.post("/upper", content=iter([b"a", b"b", b"c"])).content == b"ABC"


def test_routes_have_media_types_of_their_own(run_service):
    async def own(call):
        return {"is": call.media_type, "was": call.body_type}

    route = Route("POST", "/own", own, "Own", media_types=("a/one", "a/two"), body_types=("a/in",))
    with run_service(route) as serving, serving.client() as http:
        answer = http.post("/own", content=b"x", headers={"Content-Type": "a/in; b=c"})
        assert (answer.json(), answer.headers["content-type"]) == ({"is": "a/one", "was": "a/in"}, "a/one")
        assert http.post("/own", headers={"Accept": "a/two"}).json()["is"] == "a/two"
        assert http.post("/own", headers={"Accept": "application/json"}).status_code == 406
        assert http.post("/own", json={}).status_code == 415
        assert http.post("/own", headers={"Content-Encoding": "gzip"}).status_code == 415
        described = http.get("/openapi.json").json()["paths"]["/own"]["post"]
    assert list(described["responses"]["200"]["content"]) == ["a/one"]


def test_requests_that_come_too_often(run_service):
    limits = Limits(max_requests_per_second=0.001, request_burst=2)
    with run_service(limits=limits) as serving, serving.client() as http:
        assert [http.get("/text").status_code for _ in range(3)] == [200, 200, 429]
